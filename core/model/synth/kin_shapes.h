// More of the named shapes (named_shapes.h): dense families whose configs have Llama's keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::kin_shapes {

struct Sizes {
  uint32_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, context_tokens;
};

// config.json of a `model_type`; `more` are further keys and begin with a comma.
std::string kin(std::string_view model_type, const Sizes& sizes, std::string_view more = "");

}  // namespace tenon::kin_shapes
