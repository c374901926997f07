// Qwen3-Next and Qwen 3.5: layers with a gated delta rule, and every few layers one whose attention
// has a gate of its own, made by the product that makes q. All norms but the delta rule's have
// weights that are stored less one. Qwen3-Next has what enters the delta rule key head by key head.
#include <algorithm>
#include <array>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Names of all three; those of experts are Qwen 2's. Qwen3-Next's are the last two, in place of the
// four before them.
constexpr TensorName kNextNames[] = {
    {Role::mlp_norm, "post_attention_layernorm", "post_attention_norm"},
    {Role::q_and_gate, "self_attn.q_proj", "attn_q"},
    {Role::ssm_conv, "linear_attn.conv1d"},
    {Role::ssm_dt_bias, "linear_attn.dt_bias", "ssm_dt.bias", true},
    {Role::ssm_a, "linear_attn.A_log", "ssm_a", true},
    {Role::ssm_norm, "linear_attn.norm"},
    {Role::ssm_out, "linear_attn.out_proj"},
    {Role::shared_gate, "mlp.shared_expert.gate_proj"},
    {Role::shared_up, "mlp.shared_expert.up_proj"},
    {Role::shared_down, "mlp.shared_expert.down_proj"},
    {Role::ssm_in_x, "linear_attn.in_proj_qkv", "attn_qkv"},
    {Role::ssm_in_gate, "linear_attn.in_proj_z", "attn_gate"},
    {Role::ssm_beta, "linear_attn.in_proj_b", "ssm_beta"},
    {Role::ssm_in_step, "linear_attn.in_proj_a", "ssm_alpha"},
    {Role::ssm_in_by_key_heads, "linear_attn.in_proj_qkvz"},
    {Role::ssm_ba_by_key_heads, "linear_attn.in_proj_ba"},
};
constexpr std::span<const TensorName> kNames = std::span(kNextNames).first(14);

constexpr ShapeDefaults kNextShape{.vocabulary = 151936,
                                   .hidden = 2048,
                                   .intermediate = 5632,
                                   .layers = 48,
                                   .heads = 16,
                                   .kv_heads = 2,
                                   .head_dim = 256,
                                   .context_tokens = 32768};
constexpr ShapeDefaults kDenseShape{.vocabulary = 248320,
                                    .hidden = 4096,
                                    .intermediate = 12288,
                                    .layers = 32,
                                    .heads = 16,
                                    .kv_heads = 4,
                                    .head_dim = 256,
                                    .context_tokens = 32768};
constexpr ShapeDefaults kMoeShape{.vocabulary = 248320,
                                  .hidden = 2048,
                                  .intermediate = 512,
                                  .layers = 40,
                                  .heads = 16,
                                  .kv_heads = 2,
                                  .head_dim = 256,
                                  .context_tokens = 32768};

RecurrentPlan read_delta(const JsonFields& config, float eps) {
  RecurrentPlan delta{.kind = Recurrence::gated_delta, .gate_norm = {}};
  delta.groups = config.count("linear_num_key_heads", 16, 1, kMaxWidth);
  delta.heads = config.count("linear_num_value_heads", 32, 1, kMaxWidth);
  delta.state = config.count("linear_key_head_dim", 128, 1, kMaxWidth);
  delta.head_dim = config.count("linear_value_head_dim", 128, 1, kMaxWidth);
  delta.width = config.count("linear_conv_kernel_dim", 4, 1, kMaxConvolution);
  delta.gate_norm = {.kind = NormKind::rms, .eps = eps};
  check_delta(config, delta);
  return delta;
}

// [layers]; where layer_types is not there, every full_attention_interval-th attends.
std::vector<bool> read_types(const JsonFields& config, size_t layers) {
  const uint32_t interval = config.count("full_attention_interval", 4, 1, kMaxLayers);
  std::vector<bool> attending = read_attending(config, "layer_types", layers);
  for (size_t i = attending.size(); i < layers; ++i) attending.push_back((i + 1) % interval == 0);
  return attending;
}

// Layers with their MLPs; experts come later.
void read_layers(const JsonFields& config, const ShapeDefaults& defaults, const ShapeKeys& keys,
                 ModelPlan& plan) {
  const Shape shape = read_shape(config, defaults, plan, keys);
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm.plus_one = true;
  layer.mlp_norm = plan.final_norm = layer.attention.qk_norm = layer.attention_norm;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.output_gate = true;
  if (!config.flag("attn_output_gate", true)) {
    config.faults().unsupported(
        "'attn_output_gate' is false; attention without its gate is not "
        "built for this family");
  }
  plan.ropes = {
      read_rope(config, {.partial = PartialRotation::by_key, .partial_factor = 0.25, .axes = true},
                shape.head_dim, plan.context_tokens)};
  const RecurrentPlan delta = read_delta(config, eps);
  add_layers(read_types(config, shape.layers), layer, delta, plan);
  const auto recurs = [](const LayerPlan& each) { return bool{each.recurrent}; };
  if (std::ranges::any_of(plan.layers, recurs)) expect_silu(config);  // the convolution's as well
}

ExpertsPlan read_experts_beside(const JsonFields& config, const ExpertDefaults& defaults) {
  ExpertsPlan experts = read_experts(config, defaults);
  experts.normalised = true;
  experts.shared_width = config.count("shared_expert_intermediate_size", 512, 1, kMaxWidth);
  experts.shared_gate = true;
  return experts;
}

void read_next(const JsonFields& config, ModelPlan& plan) {
  read_layers(config, kNextShape, {}, plan);
  ExpertsPlan experts = read_experts_beside(
      config, {.count = 512, .chosen = 10, .width = 512, .width_key = "moe_intermediate_size"});
  experts.normalised = config.flag("norm_topk_prob", true);
  check_experts(config, experts);
  set_experts(read_sparse_layers(config, static_cast<uint32_t>(plan.layers.size())), experts, plan);
}

void read_dense(const JsonFields& config, ModelPlan& plan) {
  read_layers(config, kDenseShape, {}, plan);
}

void read_moe(const JsonFields& config, ModelPlan& plan) {
  read_layers(config, kMoeShape, {.intermediate = nullptr}, plan);
  const ExpertsPlan experts = read_experts_beside(
      config, {.count = 256, .chosen = 8, .width = 512, .width_key = "moe_intermediate_size"});
  if (!experts) config.faults().invalid("'num_experts' is 0; expected experts in every layer");
  check_experts(config, experts);
  // transformers overlooks all three.
  for (const char* key : {"norm_topk_prob", "mlp_only_layers", "intermediate_size"}) {
    (void)config.find(key);
  }
  for (LayerPlan& layer : plan.layers) {
    layer.experts = experts;
    layer.mlp.width = experts.width;
  }
}

// Which layers attend, the tensors tell.
void layers_from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  config["layer_types"] = ordered_json::array();
  config["attention_bias"] = false;
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const bool recurs = fields.has_tensor(layer + "ssm_conv1d.weight");
    config["layer_types"].push_back(recurs ? "linear_attention" : "full_attention");
    if (!recurs) config["attention_bias"] = fields.has_tensor(layer + "attn_q.bias");
  }
}

void from_gguf(const GgufFields& fields, ordered_json& config) {
  layers_from_gguf(fields, config);
  const uint32_t heads = fields.need_count(".ssm.time_step_rank", 1, kMaxWidth);
  const uint32_t inner = fields.need_count(".ssm.inner_size", 1, kMaxWidth);
  config["linear_num_key_heads"] = fields.need_count(".ssm.group_count", 1, kMaxWidth);
  config["linear_num_value_heads"] = heads;
  config["linear_key_head_dim"] = fields.need_count(".ssm.state_size", 1, kMaxWidth);
  config["linear_value_head_dim"] = std::max(inner / heads, 1u);
  config["linear_conv_kernel_dim"] = fields.need_count(".ssm.conv_kernel", 1, kMaxConvolution);
  if (inner % heads != 0) {
    fields.faults().invalid(fields.name(".ssm.inner_size") + " " + std::to_string(inner) +
                            " is not a multiple of " + fields.name(".ssm.time_step_rank") + " " +
                            std::to_string(heads));
  }
}

void next_from_gguf(const GgufFields& fields, ordered_json& config) {
  from_gguf(fields, config);
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .shared_width = "shared_expert_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .without = "mlp_only_layers"},
                    config);
}

void moe_from_gguf(const GgufFields& fields, ordered_json& config) {
  from_gguf(fields, config);
  experts_from_gguf(
      fields, {.width = "moe_intermediate_size", .shared_width = "shared_expert_intermediate_size"},
      config);
}

// Other programs know layers that attend by an interval, newer ones by a list.
void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  std::vector<bool> recurs;
  uint32_t interval = 0;
  for (const LayerPlan& layer : plan.layers) {
    recurs.push_back(bool{layer.recurrent});
    if (interval == 0 && layer.attends()) interval = static_cast<uint32_t>(recurs.size());
  }
  bool regular = interval > 0;
  for (size_t i = 0; i < recurs.size(); ++i) {
    regular = regular && recurs[i] == ((i + 1) % interval != 0);
  }
  if (regular) {
    out.add_count(architecture + ".full_attention_interval", interval);
  } else {
    out.add_flags(architecture + ".attention.recurrent_layers", recurs);
  }
  const auto found = std::ranges::find(recurs, true);
  if (found != recurs.end()) {
    const auto index = static_cast<size_t>(found - recurs.begin());
    mamba2_to_gguf(plan.layers[index].recurrent, architecture, out);
  }
  if (architecture == "qwen3next") return;
  // How many elements turn by each axis of an image's positions: 11, 11 and 10 of 32.
  const auto half = static_cast<int32_t>(plan.ropes.front().dim / 2);
  const int32_t third = (half + 2) / 3;
  const int32_t second = std::min(third, half - third);
  const std::array<int32_t, 4> axes{third, second, half - third - second, 0};
  out.add_integers(architecture + ".rope.dimension_sections", axes);
}

void with_experts_to_gguf(const ModelPlan& plan, const std::string& architecture,
                          GgufMetadata& out) {
  to_gguf(plan, architecture, out);
  experts_to_gguf(plan, architecture, out);
}

}  // namespace

const Family kQwen3Next{.model_type = "qwen3_next",
                        .class_stem = "Qwen3Next",
                        .architecture = "qwen3next",
                        .read = read_next,
                        .tensors = {.names = kNextNames},
                        .gguf_adds_one = true,
                        .gguf_partial_rotation = true,
                        .gguf_attention = GgufAttention::by_family,
                        .from_gguf = next_from_gguf,
                        .to_gguf = with_experts_to_gguf};
const Family kQwen35{.model_type = "qwen3_5_text",
                     .class_stem = "Qwen3_5",
                     .architecture = "qwen35",
                     .read = read_dense,
                     .tensors = {.names = kNames},
                     .gguf_adds_one = true,
                     .gguf_tiles_values = true,
                     .gguf_partial_rotation = true,
                     .gguf_attention = GgufAttention::by_family,
                     .from_gguf = from_gguf,
                     .to_gguf = to_gguf};
const Family kQwen35Moe{.model_type = "qwen3_5_moe_text",
                        .class_stem = "Qwen3_5Moe",
                        .architecture = "qwen35moe",
                        .read = read_moe,
                        .tensors = {.names = kNames},
                        .gguf_adds_one = true,
                        .gguf_tiles_values = true,
                        .gguf_partial_rotation = true,
                        .gguf_attention = GgufAttention::by_family,
                        .from_gguf = moe_from_gguf,
                        .to_gguf = with_experts_to_gguf};

}  // namespace tenon
