// Jamba: layers with a selective scan whose Δ, B and C have norms, and every few layers attention
// in which nothing turns; every other layer or so has experts in place of the MLP.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace jamba_family {

using nlohmann::ordered_json;

constexpr TensorName kNames[] = {
    {Role::final_norm, "model.final_layernorm"},
    {Role::mlp_norm, "pre_ff_layernorm"},
    {Role::gate, "feed_forward.gate_proj"},
    {Role::up, "feed_forward.up_proj"},
    {Role::down, "feed_forward.down_proj"},
    {Role::router, "feed_forward.router"},
    {Role::expert_gate, "feed_forward.experts.*.gate_proj"},
    {Role::expert_up, "feed_forward.experts.*.up_proj"},
    {Role::expert_down, "feed_forward.experts.*.down_proj"},
    {Role::ssm_in, "mamba.in_proj"},
    {Role::ssm_conv, "mamba.conv1d"},
    {Role::ssm_x, "mamba.x_proj"},
    {Role::ssm_dt, "mamba.dt_proj"},
    {Role::ssm_dt_norm, "mamba.dt_layernorm"},
    {Role::ssm_b_norm, "mamba.b_layernorm"},
    {Role::ssm_c_norm, "mamba.c_layernorm"},
    {Role::ssm_a, "mamba.A_log"},
    {Role::ssm_d, "mamba.D"},
    {Role::ssm_out, "mamba.out_proj"},
};

// Every `period`th layer from `offset` on is of a kind.
struct PeriodKeys {
  const char* period;
  const char* offset;
};
constexpr PeriodKeys kAttending{"attn_layer_period", "attn_layer_offset"};
constexpr MambaKeys kMamba{.state = "mamba_d_state",
                           .width = "mamba_d_conv",
                           .step_rank = "mamba_dt_rank",
                           .expand = "mamba_expand",
                           .projection_bias = "mamba_proj_bias",
                           .convolution_bias = "mamba_conv_bias"};
constexpr PeriodKeys kSparse{"expert_layer_period", "expert_layer_offset"};

// [layers] whether each is of that kind.
std::vector<bool> read_layers(const JsonFields& config, const PeriodKeys& keys, uint32_t period,
                              uint32_t offset, size_t layers) {
  period = config.count(keys.period, period, 1, kMaxLayers + 1);
  offset = config.count(keys.offset, offset, 0, kMaxLayers);
  if (offset >= period) {
    config.faults().invalid(config.name(keys.offset) + " is " + std::to_string(offset) +
                            "; expected less than " + config.name(keys.period) + ", which is " +
                            std::to_string(period));
  }
  std::vector<bool> own(layers);
  for (size_t i = 0; i < layers; ++i) own[i] = i % period == offset;
  return own;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 65536,
                                  .intermediate = 14336,
                                  .kv_heads = 8,
                                  .context_tokens = 262144,
                                  .bos = 1,
                                  .eos = 2,
                                  .rotates = false},
                                 plan);
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention.rope = -1;
  plan.final_norm = layer.attention_norm;
  expect_silu(config);  // the convolution's as well
  ExpertsPlan experts =
      read_experts(config, {.count = 16, .chosen = 2, .width = shape.intermediate});
  RecurrentPlan mamba = read_mamba(config, shape.hidden, kMamba);
  mamba.low_norm = plan.final_norm;
  add_layers(read_layers(config, kAttending, 8, 4, shape.layers), layer, mamba, plan);
  const std::vector<bool> sparse = read_layers(config, kSparse, 2, 1, shape.layers);
  // One expert is an MLP without a router.
  if (experts.count > 1) set_checked_experts(config, sparse, experts, plan);
  (void)config.find("sliding_window");  // transformers overlooks it
}

// What period and offset the layers have; a fault where they have none.
void set_period(const GgufFields& fields, const PeriodKeys& keys, const std::vector<bool>& own,
                ordered_json& config) {
  const auto first = std::ranges::find(own, true);
  const auto offset = static_cast<size_t>(first - own.begin());
  const auto second = first == own.end() ? first : std::find(first + 1, own.end(), true);
  size_t period = static_cast<size_t>(second - first);
  if (second == own.end()) period = own.size() + 1;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] == (i % period == offset)) continue;
    fields.faults().unsupported("layer " + std::to_string(i) + " is of another kind than " +
                                std::to_string(period) + " layers before it, or after");
    break;
  }
  config[keys.period] = period;
  config[keys.offset] = offset;
}

void from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  std::vector<bool> attending, sparse;
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    attending.push_back(config["layer_types"][i] == "full_attention");
    sparse.push_back(fields.has_tensor(layer + "ffn_gate_inp.weight"));
    if (!attending.back()) {
      config["mamba_conv_bias"] = fields.has_tensor(layer + "ssm_conv1d.bias");
      config["mamba_proj_bias"] = fields.has_tensor(layer + "ssm_in.bias");
    }
  }
  config.erase("layer_types");
  set_period(fields, kAttending, attending, config);
  set_period(fields, kSparse, sparse, config);
  mamba_from_gguf(fields, kMamba, config);
  experts_from_gguf(fields, {.normalised = nullptr}, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const RecurrentPlan* const mamba = first_recurrence(plan);
  if (mamba != nullptr) mamba_to_gguf(*mamba, architecture, out);
  experts_to_gguf(plan, architecture, out);
}

}  // namespace jamba_family

const Family kJamba{.model_type = "jamba",
                    .class_stem = "Jamba",
                    .architecture = "jamba",
                    .read = jamba_family::read,
                    .tensors = {.names = jamba_family::kNames},
                    .gguf_attention = GgufAttention::in_some_layers,
                    .from_gguf = jamba_family::from_gguf,
                    .to_gguf = jamba_family::to_gguf};

}  // namespace tenon
