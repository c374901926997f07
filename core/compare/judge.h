// What a lossy arm's answers are worth: what it predicts of a text, held against what the base
// predicts.
#pragma once

#include <string>

#include "core/pipeline/pipeline.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

struct JudgedText {
  std::string path;
  uint32_t tokens = 0;  // of the text, from its beginning
  uint32_t window_tokens = 0;
};

// Writes the logits of every token but each window's last as they lie in memory, [tokens,
// vocabulary] f32; fewer tokens where that would take more than half a gigabyte. Gives back a hash
// of the ids and the vocabulary, which judge_text() must be given.
Result<std::string> write_predictions(Pipeline& pipeline, const JudgedText& text,
                                      const std::string& file);
// Error: other ids than the base's, whose logits `file` holds: another tokenizer.
Result<Fidelity> judge_text(Pipeline& pipeline, const JudgedText& text, const std::string& file,
                            const std::string& base_ids);

}  // namespace tenon::compare
