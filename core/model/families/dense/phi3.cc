// Phi-3 and Phi-4: Llama with q, k and v in one matrix, gate and up in another, and LongRoPE.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace phi3_family {

constexpr TensorName kNames[] = {
    {Role::q, ""},
    {Role::k, ""},
    {Role::v, ""},
    {Role::gate, ""},
    {Role::up, ""},
    {Role::qkv, "self_attn.qkv_proj"},
    {Role::gate_up, "mlp.gate_up_proj", "ffn_up"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 32064,
                                  .hidden = 3072,
                                  .intermediate = 8192,
                                  .context_tokens = 4096,
                                  .bos = 1,
                                  .eos = 32000},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  const char* key = "sliding_window";
  layer.attention.window_tokens = config.has(key) ? config.count(key, 1, 1, kMaxWidth) : 0;
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config,
                          {.partial = PartialRotation::by_key, .original_context_tokens = 4096},
                          shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace phi3_family

const Family kPhi3{.model_type = "phi3",
                   .class_stem = "Phi3",
                   .architecture = "phi3",
                   .read = phi3_family::read,
                   .tensors = {.names = phi3_family::kNames},
                   .gguf_partial_rotation = true,
                   .gguf_windows = GgufWindows::by_family};

}  // namespace tenon
