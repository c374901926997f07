// What a GGUF file's metadata says of the model (docs/formats/gguf.md has the keys).
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/text_end.h"
#include "core/files/gguf_parts.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

struct GgufConfig {
  ModelPlan plan;
  std::vector<TextEnd> ends;
  std::string json;  // the config.json that says the same, but for rotary factors that it cannot
};

// `bytes` are the file's tensors: the stored rotary factors are read from them. `name` (a path)
// leads every message. What is not built is refused by the key that asks for it.
Result<GgufConfig> gguf_model_config(const GgufFile& file, const GgufBytes& bytes,
                                     std::string_view name);

// Divisors of the rotary frequencies, as a GGUF file stores them, for the scaling that
// RopeScalingKind::llama3 describes. [dim / 2]
std::vector<float> llama3_rope_factors(const RopePlan& rope);

// The decimal number with the fewest digits that reads back as `value`, for config.json.
double shortest_double(float value);

}  // namespace tenon
