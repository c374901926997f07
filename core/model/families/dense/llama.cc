// Llama 1 to 3 and the many models in its shape; IQuest-Coder and InternLM 3, which transformers
// runs as Llamas with other defaults and keys.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace llama_family {

// Cross-layer attention (arXiv:2405.12981), by the keys of published models that have it: the first
// of every `cla_share_factor` layers has K and V, which the others read.
void share_kv(const JsonFields& config, ModelPlan& plan) {
  const uint32_t factor = config.count("cla_share_factor", 1, 1, kMaxLayers);
  if (!config.flag("use_cla", false)) return;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const size_t behind = i % factor;
    if (behind > 0) plan.layers[i].attention.kv_from_layer = static_cast<int32_t>(i - behind);
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  share_kv(config, plan);
}

void read_kin(const JsonFields& config, const ShapeDefaults& usual, bool attention_bias,
              bool mlp_bias, ModelPlan& plan) {
  const Shape shape = read_shape(config, usual, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = attention_bias;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = mlp_bias;
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void read_iquest_coder(const JsonFields& config, ModelPlan& plan) {
  if (config.flag("use_sliding_window", false)) {
    config.faults().unsupported(
        "'use_sliding_window' is true; windows are not built here, nor does "
        "the reference have them");
  }
  read_kin(config,
           {.vocabulary = 76800,
            .hidden = 5120,
            .intermediate = 27648,
            .layers = 80,
            .heads = 40,
            .kv_heads = 8,
            .head_dim = head_dim_unless_null(config, 128),
            .context_tokens = 131072,
            .bos = 1,
            .eos = 2},
           config.flag("attention_bias", false), config.flag("mlp_bias", false), plan);
}

// Published files have the biases by other names.
void read_intern_lm3(const JsonFields& config, ModelPlan& plan) {
  const bool attention = config.flag(general_or(config, "attention_bias", "qkv_bias"), false);
  const bool mlp = config.flag(general_or(config, "mlp_bias", "bias"), false);
  if (attention != mlp) {
    config.faults().unsupported(
        "'qkv_bias' and 'bias' are not the same; biases of a part alone are not built here, nor "
        "does the reference have them");
  }
  read_kin(config,
           {.vocabulary = 128512,
            .intermediate = 10240,
            .layers = 48,
            .kv_heads = 2,
            .head_dim = head_dim_unless_null(config, 128),
            .context_tokens = 32768,
            .bos = 1,
            .eos = 2},
           attention, mlp, plan);
}

}  // namespace llama_family

const Family kLlama{.model_type = "llama",
                    .class_stem = "Llama",
                    .architecture = "llama",
                    .read = llama_family::read,
                    .gguf_pairs_rows = true,
                    .gguf_windows = GgufWindows::by_family};
const Family kIquestCoder{.model_type = "iquestcoder",
                          .class_stem = "IQuestCoder",
                          .architecture = "llama",
                          .read = llama_family::read_iquest_coder,
                          .other_stem = "Llama",
                          .gguf_pairs_rows = true};
const Family kInternLm3{.model_type = "internlm3",
                        .class_stem = "InternLM3",
                        .architecture = "llama",
                        .read = llama_family::read_intern_lm3,
                        .other_stem = "Llama",
                        .gguf_pairs_rows = true};

}  // namespace tenon
