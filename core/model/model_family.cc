#include "core/model/model_family.h"

#include <algorithm>
#include <cctype>

namespace tenon {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.model_type = "llama",
     .class_stem = "Llama",
     .attention_bias = BiasRule::by_key,
     .mlp_bias_key = true,
     .qk_norm = false,
     .window = WindowRule::none,
     .vocabulary = 32000,
     .intermediate = 11008,
     .kv_heads = std::nullopt,
     .head_dim = 0,
     .context_tokens = 2048,
     .bos = 1,
     .eos = 2},
    {.model_type = "mistral",
     .class_stem = "Mistral",
     .attention_bias = BiasRule::never,
     .mlp_bias_key = false,
     .qk_norm = false,
     .window = WindowRule::every_layer,
     .vocabulary = 32000,
     .intermediate = 14336,
     .kv_heads = 8,
     .head_dim = 0,
     .context_tokens = 131072,
     .bos = 1,
     .eos = 2},
    {.model_type = "qwen2",
     .class_stem = "Qwen2",
     .attention_bias = BiasRule::qkv_always,
     .mlp_bias_key = false,
     .qk_norm = false,
     .window = WindowRule::upper_layers,
     .vocabulary = 151936,
     .intermediate = 22016,
     .kv_heads = 32,
     .head_dim = 0,
     .context_tokens = 32768,
     .bos = -1,
     .eos = -1},
    {.model_type = "qwen3",
     .class_stem = "Qwen3",
     .attention_bias = BiasRule::by_key,
     .mlp_bias_key = false,
     .qk_norm = true,
     .window = WindowRule::upper_layers,
     .vocabulary = 151936,
     .intermediate = 22016,
     .kv_heads = 32,
     .head_dim = 128,
     .context_tokens = 32768,
     .bos = -1,
     .eos = -1},
};

// Early Llama checkpoints write "LLaMAForCausalLM".
bool equal_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

const ModelFamily* find_model_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &ModelFamily::model_type);
  return found == std::end(kFamilies) ? nullptr : found;
}

const ModelFamily* find_model_family_by_class(std::string_view class_name) {
  for (const ModelFamily& family : kFamilies) {
    const std::string stem(family.class_stem);
    if (equal_but_case(class_name, stem + "ForCausalLM") ||
        equal_but_case(class_name, stem + "Model")) {
      return &family;
    }
  }
  return nullptr;
}

std::string model_family_names() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return names;
}

}  // namespace tenon
