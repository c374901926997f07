// Flags that say what to generate, and the request that they, the prompt and the model's own
// recommendations make together. Order of precedence: prompt file, command line, pipeline file,
// generation_config.json, built-in default.
#pragma once

#include "core/config/answer_settings.h"
#include "core/engine/requests/request.h"
#include "core/workload/prompts.h"
#include "tools/tenon/shell/command_line.h"
#include "tools/tenon/shell/grammar_flags.h"

namespace tenon {

struct Pipeline;

struct GenerationFlags {
  AnswerSettings answer;
  GrammarFlags grammar;

  // One option for each of parameters(), and those of grammars.
  void add_to(Command command);
};

// The request for one prompt; its text is encoded with the pipeline's tokenizer.
Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt);

}  // namespace tenon
