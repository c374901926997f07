#include "core/model/synth/kin_shapes.h"

namespace tenon::kin_shapes {

std::string kin(std::string_view model_type, const Sizes& sizes, std::string_view more) {
  std::string config = R"({"model_type":")" + std::string(model_type) + '"';
  const auto add = [&config](std::string_view key, uint32_t value) {
    config += ",\"" + std::string(key) + "\":" + std::to_string(value);
  };
  add("hidden_size", sizes.hidden);
  add("intermediate_size", sizes.intermediate);
  add("num_hidden_layers", sizes.layers);
  add("num_attention_heads", sizes.heads);
  add("num_key_value_heads", sizes.kv_heads);
  add("head_dim", sizes.head_dim);
  add("vocab_size", sizes.vocabulary);
  add("max_position_embeddings", sizes.context_tokens);
  return config.append(more) + "}";
}

}  // namespace tenon::kin_shapes
