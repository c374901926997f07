// Bamba: Llama's layers, of which most run a Mamba-2 mixer in place of attention. Half of each head
// turns.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace bamba_family {

using nlohmann::json;

constexpr Mamba2Defaults kDefaults{.heads = 128, .head_dim = 0, .state = 256, .groups = 1};

// [layers] whether each attends; none does where nothing says which.
std::vector<bool> read_types(const JsonFields& config, size_t count) {
  for (const char* key : {"layers_block_type", "layer_types"}) (void)config.find(key);
  std::vector<bool> attending(count);
  const char* key = "attn_layer_indices";
  const json* indices = config.find(key);
  if (indices == nullptr) return attending;
  const auto sound = [&](const json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() < count;
  };
  if (!indices->is_array() || !std::ranges::all_of(*indices, sound)) {
    config.faults().invalid(config.name(key) + " is " + describe(*indices) +
                            "; expected a list of layers below " + std::to_string(count));
    return attending;
  }
  for (const json& item : *indices) attending[item.get<size_t>()] = true;
  return attending;
}

// transformers takes half of each head, whatever the key outside of rope_parameters says.
void check_partial(const JsonFields& config) {
  const char* key = "partial_rotary_factor";
  if (config.number(key, 0.5) == 0.5) return;
  config.faults().unsupported(config.name(key) + " is " + describe(*config.find(key)) +
                              "; outside of 'rope_parameters' only 0.5 counts");
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128000,
                                  .intermediate = 14336,
                                  .kv_heads = 8,
                                  .context_tokens = 262144,
                                  .bos = 1,
                                  .eos = 2},
                                 plan);
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.bias = config.flag("mlp_bias", false);
  expect_silu(config);
  check_partial(config);
  plan.ropes = {read_rope(config, {.partial = PartialRotation::by_key, .partial_factor = 0.5},
                          shape.head_dim, plan.context_tokens)};
  const RecurrentPlan mamba = read_mamba2(config, shape.hidden, eps, kDefaults, kHybridMamba2Keys);
  add_layers(read_types(config, shape.layers), layer, mamba, plan);
}

// llama.cpp's converter calls it a Granite 4 whose heads turn, and most files say that whole heads
// do; half of each turns all the same.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  mamba2_from_gguf(fields, kHybridMamba2Keys, config);
  const json types = config["layer_types"];
  config.erase("layer_types");
  config["attn_layer_indices"] = json::array();
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    if (types[i] == "full_attention") {
      config["attn_layer_indices"].push_back(i);
      config["attention_bias"] = fields.has_tensor(layer + "attn_q.bias");
    } else {
      config["mamba_conv_bias"] = fields.has_tensor(layer + "ssm_conv1d.bias");
      config["mamba_proj_bias"] = fields.has_tensor(layer + "ssm_in.bias");
    }
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const RecurrentPlan* const mamba = first_recurrence(plan);
  if (mamba != nullptr) mamba2_to_gguf(*mamba, architecture, out);
  out.add_flag(architecture + ".rope.scaling.finetuned", true);
}

}  // namespace bamba_family

const Family kBamba{.model_type = "bamba",
                    .class_stem = "Bamba",
                    .architecture = "granitehybrid",
                    .read = bamba_family::read,
                    .tensors = {.names = kBambaNames},
                    .gguf_pairs_rows = true,
                    .gguf_partial_rotation = true,
                    .gguf_attention = GgufAttention::in_some_layers,
                    .from_gguf = bamba_family::from_gguf,
                    .to_gguf = bamba_family::to_gguf};

}  // namespace tenon
