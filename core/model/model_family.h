// What distinguishes the model families that can be run, and the values that each takes where
// config.json says nothing (those of Hugging Face transformers for the same model_type).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

enum class BiasRule { never, qkv_always, by_key };  // by_key: attention_bias, on q, k, v and output
// Which layers have a sliding window: none; every one, when `sliding_window` is set; or those from
// `max_window_layers` on, when `use_sliding_window` is true (layer_types may say otherwise).
enum class WindowRule { none, every_layer, upper_layers };

struct ModelFamily {
  std::string_view model_type;
  std::string_view class_stem;  // architectures: <stem>ForCausalLM, <stem>Model
  BiasRule attention_bias;
  bool mlp_bias_key;
  bool qk_norm;
  WindowRule window;

  uint32_t vocabulary;
  uint32_t intermediate;
  std::optional<uint32_t> kv_heads;  // absent: as many as heads
  uint32_t head_dim;                 // 0: hidden / heads
  uint32_t context_tokens;
  int32_t bos, eos;  // kNoToken: none
};

// Null when no family has that name.
const ModelFamily* find_model_family(std::string_view model_type);
const ModelFamily* find_model_family_by_class(std::string_view class_name);
// "llama, mistral, qwen2, qwen3"
std::string model_family_names();

}  // namespace tenon
