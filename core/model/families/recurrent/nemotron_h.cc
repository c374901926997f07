// Nemotron-H and Nemotron 3: a layer is a norm and one of a Mamba-2 mixer, attention in which
// nothing turns, an MLP with a squared ReLU, or experts that are such MLPs, chosen as DeepSeek-V3
// does.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace nemotron_h_family {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr TensorName kNames[] = {
    {Role::embedding, "backbone.embeddings"},
    {Role::final_norm, "backbone.norm_f"},
    {Role::attention_norm, "norm"},
    {Role::mlp_norm, "norm", "attn_norm"},
    {Role::q, "mixer.q_proj"},
    {Role::k, "mixer.k_proj"},
    {Role::v, "mixer.v_proj"},
    {Role::output, "mixer.o_proj"},
    {Role::ssm_in, "mixer.in_proj"},
    {Role::ssm_conv, "mixer.conv1d"},
    {Role::ssm_dt_bias, "mixer.dt_bias"},
    {Role::ssm_a, "mixer.A_log"},
    {Role::ssm_d, "mixer.D"},
    {Role::ssm_norm, "mixer.norm"},
    {Role::ssm_out, "mixer.out_proj"},
    {Role::gate, ""},
    {Role::up, "mixer.up_proj"},
    {Role::down, "mixer.down_proj"},
    {Role::router_correction, "mixer.gate.e_score_correction_bias", "exp_probs_b.bias", true},
    {Role::router, "mixer.gate"},  // after the name that begins with it
    {Role::expert_gate, ""},
    {Role::expert_up, "mixer.experts.*.up_proj"},
    {Role::expert_down, "mixer.experts.*.down_proj"},
    {Role::shared_gate, ""},
    {Role::shared_up, "mixer.shared_experts.up_proj"},
    {Role::shared_down, "mixer.shared_experts.down_proj"},
    {Role::latent_in, "mixer.fc1_latent_proj"},
    {Role::latent_out, "mixer.fc2_latent_proj"},
};

constexpr std::pair<std::string_view, std::string_view> kInMemory[] = {{"backbone.", "model."}};

enum class Mixer : uint8_t { mamba, attention, mlp, experts };

std::optional<Mixer> mixer_of(const json& type) {
  if (type == "linear_attention" || type == "mamba" || type == "M") return Mixer::mamba;
  if (type == "full_attention" || type == "attention" || type == "*") return Mixer::attention;
  if (type == "mlp" || type == "-") return Mixer::mlp;
  if (type == "moe" || type == "E") return Mixer::experts;
  return std::nullopt;
}

// A list of types, or as published files have it a text with a character a layer, whose length is
// the number of layers.
std::vector<Mixer> read_mixers(const JsonFields& config) {
  (void)config.find("num_hidden_layers");
  const char* list = general_or(config, "layer_types", "layers_block_type");
  const char* key = general_or(config, list, "hybrid_override_pattern");
  for (const char* other : {"layers_block_type", "layer_types", "hybrid_override_pattern"}) {
    (void)config.find(other);
  }
  const json* value = config.find(key);
  if (value == nullptr) return {Mixer::mamba, Mixer::experts, Mixer::attention, Mixer::mlp};
  json types = *value;
  if (types.is_string()) {
    types = json::array();
    for (const char mark : value->get<std::string>()) types.push_back(std::string(1, mark));
  }
  std::vector<Mixer> mixers;
  for (const json& type : types.is_array() ? types : json::array()) {
    const std::optional<Mixer> mixer = mixer_of(type);
    if (!mixer) {
      config.faults().unsupported(config.name(key) + " has " + describe(type) +
                                  "; layers are linear_attention (M), full_attention (*), mlp (-) "
                                  "or moe (E)");
      return {Mixer::mamba};
    }
    mixers.push_back(*mixer);
  }
  if (!mixers.empty() && mixers.size() <= kMaxLayers) return mixers;
  config.faults().invalid(config.name(key) + " is " + describe(*value) +
                          "; expected the type of each layer");
  return {Mixer::mamba};
}

// Steps are bounded below by "time_step_min"; "time_step_limit" counts for nothing here. The inner
// width follows from the heads, whatever "expand" says.
RecurrentPlan read_mamba(const JsonFields& config, float eps) {
  RecurrentPlan mamba{.kind = Recurrence::mamba2, .gate_norm = {}};
  const auto key = [&](const char* general, const char* older) {
    return config.has(older) ? older : general;
  };
  mamba.heads = config.count("mamba_num_heads", 128, 1, 32768);
  mamba.head_dim = config.count("mamba_head_dim", 64, 1, 32768);
  mamba.state = config.count("ssm_state_size", 128, 1, 32768);
  mamba.groups = config.count(key("n_groups", "mamba_n_groups"), 8, 1, 32768);
  mamba.width = config.count(key("conv_kernel", "mamba_d_conv"), 4, 1, kMaxConvolution);
  mamba.projection_bias = mamba.output_bias = config.flag("use_bias", false);
  mamba.convolution_bias = config.flag(key("use_conv_bias", "mamba_conv_bias"), true);
  const char* least = key("time_step_min", "mamba_dt_min");
  mamba.least_step = static_cast<float>(config.number(least, 0.001));
  if (!(mamba.least_step >= 0.0f)) {
    config.faults().invalid(config.name(least) + " is below 0");
  }
  mamba.gate_norm = {.kind = NormKind::rms, .eps = eps};
  if (mamba.heads % mamba.groups != 0) {
    config.faults().invalid("'mamba_num_heads' " + std::to_string(mamba.heads) +
                            " is not a multiple of 'n_groups' " + std::to_string(mamba.groups));
    mamba.groups = 1;
  }
  const uint64_t inner = uint64_t{mamba.heads} * mamba.head_dim;
  const uint64_t both = uint64_t{mamba.groups} * mamba.state;
  if (inner * mamba.state > kMaxWidth || 2 * inner + 2 * both + mamba.heads > kMaxWidth) {
    config.faults().invalid(std::to_string(mamba.heads) + " heads of " +
                            std::to_string(mamba.head_dim) + " with states of " +
                            std::to_string(mamba.state) + " are too wide; at most " +
                            std::to_string(kMaxWidth) + " numbers together");
    mamba.heads = mamba.groups = mamba.head_dim = mamba.state = 1;
  }
  if (config.text("mamba_hidden_act", "silu") != "silu") {
    config.faults().unsupported("'mamba_hidden_act' is " +
                                describe(*config.find("mamba_hidden_act")) +
                                "; recurrent layers are built for \"silu\" only");
  }
  for (const char* other : {"time_step_limit", "mamba_dt_limit", "expand", "mamba_expand"}) {
    (void)config.find(other);
  }
  return mamba;
}

ExpertsPlan read_own_experts(const JsonFields& config, uint32_t hidden, Activation activation) {
  ExpertsPlan experts = read_experts(config, {.count = 8,
                                              .chosen = 2,
                                              .width = 7688,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "n_routed_experts"});
  experts.gated = false;
  experts.activation = activation;
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = true;
  experts.group_score = GroupScore::best_two;
  experts.groups = config.count("n_group", 1, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", 1, 1, kMaxWidth);
  experts.normalised = config.flag("norm_topk_prob", true);
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", 1.0));
  // However many are shared, they are one MLP of this width.
  experts.shared_width = config.count("moe_shared_expert_intermediate_size", 7688, 1, kMaxWidth);
  (void)config.find("n_shared_experts");
  const char* latent = "moe_latent_size";
  if (config.has(latent)) experts.latent_width = config.count(latent, hidden, 1, hidden);
  return experts;
}

// What makes up layers of each type.
struct Parts {
  NormPlan norm;
  SelfAttentionPlan attention;
  RecurrentPlan mamba;
  MlpPlan mlp;
  ExpertsPlan experts;
};

LayerPlan layer_of(Mixer mixer, const Parts& parts) {
  LayerPlan layer;
  layer.attention.rope = -1;
  if (mixer == Mixer::mamba || mixer == Mixer::attention) layer.attention_norm = parts.norm;
  if (mixer == Mixer::mlp || mixer == Mixer::experts) layer.mlp_norm = parts.norm;
  if (mixer == Mixer::mamba) layer.recurrent = parts.mamba;
  if (mixer == Mixer::attention) layer.attention = parts.attention;
  if (mixer == Mixer::mlp) layer.mlp = parts.mlp;
  if (mixer == Mixer::experts) layer.experts = parts.experts;
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const std::vector<Mixer> mixers = read_mixers(config);
  const Shape shape = read_shape(config,
                                 {.vocabulary = 131072,
                                  .hidden = 4096,
                                  .intermediate = 21504,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 4096,
                                  .bos = 1,
                                  .eos = 2,
                                  .rotates = false},
                                 plan, {});
  plan.tied_embeddings = false;  // transformers ties nothing here, whatever config.json says
  const float eps = read_eps(config, "layer_norm_epsilon", 1e-5);
  const LayerPlan base = llama_layer(shape, eps);
  Parts parts{base.attention_norm, base.attention, read_mamba(config, eps), {}, {}};
  plan.final_norm = parts.norm;
  parts.attention.rope = -1;
  parts.mlp = {.width = shape.intermediate,
               .gated = false,
               .activation = read_activation(config, {"mlp_hidden_act"}, "relu2"),
               .bias = config.flag("mlp_bias", false)};
  parts.experts = read_own_experts(config, shape.hidden, parts.mlp.activation);
  const bool any = std::ranges::find(mixers, Mixer::experts) != mixers.end();
  if (any) check_experts(config, parts.experts);
  if (any && parts.mlp.bias) {
    config.faults().unsupported("'mlp_bias' is true; experts with biases are not built here");
  }
  for (const Mixer mixer : mixers) plan.layers.push_back(layer_of(mixer, parts));
  // transformers overlooks these.
  for (const char* key : {"attention_bias", "sliding_window"}) (void)config.find(key);
}

// Of the layers that have an MLP alone, which the tensors tell: llama.cpp's converter writes 0 for
// them where other layers have experts.
uint32_t mlp_width(const GgufFields& fields, const ordered_json& marks, uint32_t fallback) {
  for (size_t i = 0; i < marks.size(); ++i) {
    const uint64_t rows = fields.tensor_rows("blk." + std::to_string(i) + ".ffn_up.weight");
    if (marks[i] == "mlp" && rows > 0) {
      return static_cast<uint32_t>(std::min<uint64_t>(rows, kMaxWidth));
    }
  }
  return fallback;
}

// Which layer is what, the tensors tell. Files do not say what bounds steps.
void from_gguf(const GgufFields& fields, ordered_json& config) {
  ordered_json types = ordered_json::array();
  config["use_bias"] = config["use_conv_bias"] = config["mlp_bias"] = false;
  for (uint32_t i = 0; i < config["num_hidden_layers"].get<uint32_t>(); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const auto has = [&](const char* name) { return fields.has_tensor(layer + name); };
    types.push_back(has("ssm_conv1d.weight")     ? "linear_attention"
                    : has("attn_q.weight")       ? "full_attention"
                    : has("ffn_gate_inp.weight") ? "moe"
                                                 : "mlp");
    if (has("ssm_in.bias")) config["use_bias"] = true;
    if (has("ssm_conv1d.bias")) config["use_conv_bias"] = true;
    if (has("ffn_up.bias")) config["mlp_bias"] = true;
  }
  config.erase("layer_types");
  config["intermediate_size"] =
      mlp_width(fields, types, config["intermediate_size"].get<uint32_t>());
  config["layers_block_type"] = std::move(types);
  const uint32_t heads = fields.need_count(".ssm.time_step_rank", 1, 32768);
  const uint32_t inner = fields.need_count(".ssm.inner_size", 1, kMaxWidth);
  config["mamba_num_heads"] = heads;
  config["mamba_head_dim"] = std::max(inner / heads, 1u);
  config["ssm_state_size"] = fields.need_count(".ssm.state_size", 1, 32768);
  config["n_groups"] = fields.need_count(".ssm.group_count", 1, 32768);
  config["conv_kernel"] = fields.need_count(".ssm.conv_kernel", 1, kMaxConvolution);
  if (inner % heads != 0) {
    fields.faults().invalid(fields.name(".ssm.inner_size") + " " + std::to_string(inner) +
                            " is not a multiple of " + fields.name(".ssm.time_step_rank") + " " +
                            std::to_string(heads));
  }
  if (fields.count(".expert_count", 0, 0, kMaxWidth) == 0) return;
  experts_from_gguf(fields,
                    {.count = "n_routed_experts",
                     .width = "moe_intermediate_size",
                     .shared_width = "moe_shared_expert_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .gating = kGgufSigmoid},
                    config);
  const uint32_t latent = fields.count(".moe_latent_size", 0, 0, kMaxWidth);
  if (latent > 0) config["moe_latent_size"] = latent;
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const auto chooses = [](const LayerPlan& layer) { return bool{layer.experts}; };
  const RecurrentPlan* const mamba = first_recurrence(plan);
  if (mamba != nullptr) mamba2_to_gguf(*mamba, architecture, out);
  // llama.cpp asks for it under both names.
  out.add_real(architecture + ".attention.layer_norm_epsilon", plan.final_norm.eps);
  const auto experts = std::ranges::find_if(plan.layers, chooses);
  if (experts == plan.layers.end()) return;
  experts_to_gguf(plan, architecture, out);
  out.add_count(architecture + ".expert_shared_count", 1);
  if (experts->experts.latent_width > 0) {
    out.add_count(architecture + ".moe_latent_size", experts->experts.latent_width);
  }
}

}  // namespace nemotron_h_family

// Files without experts are called "nemotron_h", which the model_type is.
const Family kNemotronH{.model_type = "nemotron_h",
                        .class_stem = "NemotronH",
                        .architecture = "nemotron_h_moe",
                        .read = nemotron_h_family::read,
                        .tensors = {.names = nemotron_h_family::kNames,
                                    .base = "backbone.",
                                    .in_memory = nemotron_h_family::kInMemory},
                        .gguf_partial_rotation = true,
                        .gguf_attention = GgufAttention::in_some_layers,
                        .gguf_eps_key = "layer_norm_epsilon",
                        .from_gguf = nemotron_h_family::from_gguf,
                        .to_gguf = nemotron_h_family::to_gguf};

}  // namespace tenon
