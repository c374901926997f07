// xLSTM: layers with a matrix memory (mLSTM) in place of attention and a gated MLP, as
// transformers has them for the published model of 7B.
#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace xlstm_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "backbone.embeddings"},
    {Role::final_norm, "backbone.out_norm"},
    {Role::attention_norm, "norm_mlstm"},
    {Role::mlp_norm, "norm_ffn"},
    {Role::ssm_in_q, "mlstm_layer.q"},
    {Role::ssm_in_k, "mlstm_layer.k"},
    {Role::ssm_in_v, "mlstm_layer.v"},
    {Role::ssm_in_gate, "mlstm_layer.ogate_preact"},
    {Role::ssm_beta, "mlstm_layer.igate_preact"},
    {Role::ssm_in_step, "mlstm_layer.fgate_preact"},
    {Role::ssm_norm, "mlstm_layer.multihead_norm"},
    {Role::ssm_out, "mlstm_layer.out_proj"},
    {Role::gate, "ffn.proj_up_gate"},
    {Role::up, "ffn.proj_up"},
    {Role::down, "ffn.proj_down"},
};

// The whole part of hidden · the factor at `key`.
double read_width(const JsonFields& config, const char* key, double fallback, uint32_t hidden) {
  const double width = std::trunc(hidden * bounded_number(config, key, fallback));
  if (width >= 1 && width * 4 <= kMaxWidth) return width;
  config.faults().invalid(config.name(key) + " times 'hidden_size' is " + std::to_string(width) +
                          "; expected from 1 to " + std::to_string(kMaxWidth / 4));
  return 1;
}

// Of each of the heads.
uint32_t read_head(const JsonFields& config, const char* key, double fallback, uint32_t hidden,
                   uint32_t heads) {
  const auto width = static_cast<uint32_t>(read_width(config, key, fallback, hidden));
  if (width % heads != 0) {
    config.faults().invalid(config.name(key) + " times 'hidden_size' is " + std::to_string(width) +
                            ", no multiple of 'num_heads' " + std::to_string(heads));
  }
  return std::max(width / heads, 1u);
}

RecurrentPlan read_mlstm(const JsonFields& config, uint32_t hidden, float norm_eps) {
  RecurrentPlan made{.kind = Recurrence::mlstm, .gate_norm = {}};
  made.heads = made.groups = config.count("num_heads", 8, 1, kMaxWidth);
  made.head_dim = read_head(config, "v_dim_factor", 1.0, hidden, made.heads);
  made.state = read_head(config, "qk_dim_factor", 0.5, hidden, made.heads);
  made.width = 1;
  made.sigmoid_gate = true;
  made.gate_cap = static_cast<float>(bounded_number(config, "gate_soft_cap", 15.0));
  made.divisor_eps = read_eps(config, "eps", 1e-6);
  made.gate_norm = {.kind = NormKind::layer, .eps = norm_eps};
  made.norm_first = true;
  if (uint64_t{made.inner()} * made.state > kMaxWidth) {
    config.faults().invalid("states of " + std::to_string(made.state) + " for " +
                            std::to_string(made.inner()) + " values are too wide; at most " +
                            std::to_string(kMaxWidth) + " numbers together");
    made.heads = made.groups = made.head_dim = made.state = 1;
  }
  return made;
}

// As a multiple of what widths are rounded up to.
uint32_t read_mlp_width(const JsonFields& config, uint32_t hidden) {
  const double multiple = config.count("ffn_round_up_to_multiple_of", 64, 1, 1u << 20);
  const double width = hidden * bounded_number(config, "ffn_proj_factor", 2.667) + multiple - 1;
  const double rounded = width - std::fmod(width, multiple);
  if (rounded >= 1 && rounded * 4 <= kMaxWidth) return static_cast<uint32_t>(rounded);
  config.faults().invalid("'ffn_proj_factor' times 'hidden_size' is " + std::to_string(rounded) +
                          "; expected from 1 to " + std::to_string(kMaxWidth / 4));
  return 1;
}

void refuse_others(const JsonFields& config, uint32_t hidden) {
  Faults& faults = config.faults();
  if (config.flag("use_bias", false)) {
    faults.unsupported("'use_bias' is true; RMS norms with a bias are not built");
  }
  if (config.text("weight_mode", "single") != "single") {
    faults.unsupported("'weight_mode' is " + describe(*config.find("weight_mode")) +
                       "; only \"single\" is built, where each product has a matrix");
  }
  if (const uint32_t width = config.count("embedding_dim", hidden, 1, kMaxWidth); width != hidden) {
    faults.invalid("'embedding_dim' is " + std::to_string(width) + ", but 'hidden_size' " +
                   std::to_string(hidden) + "; they are one width");
  }
  // How transformers computes the same thing, and in which types; its last norm is there whatever
  // add_out_norm says.
  for (const char* key :
       {"add_out_norm", "autocast_kernel_dtype", "chunk_size", "chunkwise_kernel", "head_dim",
        "inference_state_dtype", "max_inference_chunksize", "mode", "norm_reduction_force_float32",
        "return_last_states", "sequence_kernel", "step_kernel"}) {
    (void)config.find(key);
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const uint32_t layers = read_plain_shape(config, {.vocabulary = 50304, .bos = 0, .eos = 2}, plan);
  const float eps = read_eps(config, "norm_eps", 1e-6);
  LayerPlan layer = recurrent_layer(read_mlstm(config, plan.hidden, eps), eps);
  layer.mlp_norm = plan.final_norm = layer.attention_norm;
  layer.mlp.width = read_mlp_width(config, plan.hidden);
  plan.logit_soft_cap = static_cast<float>(bounded_number(config, "output_logit_soft_cap", 30.0));
  plan.layers.assign(config.count("num_blocks", layers, 1, kMaxLayers), layer);
  refuse_others(config, plan.hidden);
}

}  // namespace xlstm_family

const Family kXlstm{
    .model_type = "xlstm",
    .class_stem = "xLSTM",
    .architecture = "",
    .read = xlstm_family::read,
    .tensors = {.names = xlstm_family::kNames, .base = "backbone.", .layers = "blocks."}};

}  // namespace tenon
