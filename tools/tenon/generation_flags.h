// Flags that say what to generate, and the request that they, the prompt and the model's own
// recommendations make together. Order of precedence: prompt file, command line, pipeline file,
// generation_config.json, built-in default.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/request.h"
#include "tools/tenon/prompts.h"

namespace tenon {

struct Pipeline;

struct GenerationFlags {
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<uint64_t> seed;
  uint32_t logprobs = 0;
  std::vector<std::string> stop;
  uint32_t samples = 1;
  bool ignore_eos = false;

  void add_to(CLI::App& command);
};

// The request for one prompt; its text is encoded with the pipeline's tokenizer.
Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt);

}  // namespace tenon
