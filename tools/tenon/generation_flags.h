// Flags that say what to generate, and the request that they, the prompt and the model's own
// recommendations make together. Order of precedence: prompt file, command line, pipeline file,
// generation_config.json, built-in default.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/answer_settings.h"
#include "core/engine/request.h"
#include "tools/tenon/prompts.h"

namespace tenon {

struct Pipeline;

struct GenerationFlags {
  AnswerSettings answer;
  std::vector<std::string> logit_bias;  // "17=-5.0"
  std::vector<std::string> params;      // "acme.heat=0.5"

  void add_to(CLI::App& command);
};

// The request for one prompt; its text is encoded with the pipeline's tokenizer.
Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt);

}  // namespace tenon
