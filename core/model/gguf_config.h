// What a GGUF file's metadata says of the model (docs/formats/gguf.md has the keys).
#pragma once

#include <string_view>

#include "core/base/gguf.h"
#include "core/model/model_config.h"

namespace tenon {

// `bytes` are the file's: the stored rotary factors are read from them. `name` (a path) leads every
// message. What is not built is refused by the key that asks for it.
Result<ModelConfig> gguf_model_config(const GgufFile& file, std::span<const std::byte> bytes,
                                      std::string_view name);
Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file, std::string_view name);

// Llama models in GGUF files have the rows of q and k in pairs (0, half, 1, half + 1, …), because
// ggml rotates neighbours; all others keep halves.
bool gguf_pairs_rows(std::string_view architecture);

// Divisors of the rotary frequencies, as a GGUF file stores them, for the scaling that
// RopeScalingKind::llama3 describes. [head_dim / 2]
std::vector<float> llama3_rope_factors(const ModelConfig& config);

}  // namespace tenon
