// Llama 4's text part: windows that are chunks; layers that do not turn, whose q grows with the
// position; a norm of q and k without weights after they turn; and in some layers experts whose
// factors are on what they read, next to a shared one.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace llama4_family {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr TensorName kNames[] = {
    {Role::router, "feed_forward.router"},
    {Role::expert_gate, "feed_forward.experts.*.gate_proj"},
    {Role::expert_up, "feed_forward.experts.*.up_proj"},
    {Role::expert_down, "feed_forward.experts.*.down_proj"},
    {Role::shared_gate, "feed_forward.shared_expert.gate_proj"},
    {Role::shared_up, "feed_forward.shared_expert.up_proj"},
    {Role::shared_down, "feed_forward.shared_expert.down_proj"},
    {Role::gate, "feed_forward.gate_proj"},
    {Role::up, "feed_forward.up_proj"},
    {Role::down, "feed_forward.down_proj"},
};
constexpr uint32_t kChunk = 8192, kFloor = 8192, kPeriod = 4;
constexpr float kGrowth = 0.1f;

// [layers] whether each turns.
std::vector<bool> read_turning(const JsonFields& config, uint32_t layers) {
  const json* listed = config.find("no_rope_layers");
  const uint32_t period = config.count("no_rope_layer_interval", kPeriod, 1, kMaxLayers);
  if (listed != nullptr && !listed->empty()) return config.flags("no_rope_layers", layers);
  std::vector<bool> turning;
  for (uint32_t i = 0; i < layers; ++i) turning.push_back((i + 1) % period != 0);
  return turning;
}

// [layers] whether each attends within chunks, by layer_types, or where that is missing the layers
// that turn.
std::vector<bool> read_chunked(const JsonFields& config, const std::vector<bool>& turning) {
  const bool any = !config.is_null("attention_chunk_size");
  const json* types = config.find("layer_types");
  if (types == nullptr) return any ? turning : std::vector<bool>(turning.size(), false);
  const auto sound = [](const json& type) {
    return type == "chunked_attention" || type == "full_attention";
  };
  if (!types->is_array() || types->size() != turning.size() ||
      !std::ranges::all_of(*types, sound)) {
    config.faults().invalid("'layer_types' is " + describe(*types) + "; expected a list of " +
                            std::to_string(turning.size()) +
                            ", each \"chunked_attention\" or \"full_attention\"");
    return {};
  }
  std::vector<bool> chunked;
  for (const json& type : *types) chunked.push_back(type == "chunked_attention");
  if (!any && std::ranges::find(chunked, true) != chunked.end()) {
    config.faults().invalid(
        "'attention_chunk_size' is null; by 'layer_types' some layers attend within chunks");
  }
  return chunked;
}

// [layers] whether each has experts.
std::vector<bool> read_sparse(const JsonFields& config, uint32_t layers) {
  const uint32_t step = config.count("interleave_moe_layer_step", 1, 1, kMaxLayers);
  const json* listed = config.find("moe_layers");
  std::vector<bool> sparse(layers, false);
  for (uint32_t i = 0; i < layers && listed == nullptr; ++i) sparse[i] = (i + 1) % step == 0;
  if (listed == nullptr) return sparse;
  const auto sound = [](const json& item) { return item.is_number_unsigned(); };
  if (!listed->is_array() || !std::ranges::all_of(*listed, sound)) {
    config.faults().invalid("'moe_layers' is " + describe(*listed) + "; expected a list of layers");
    return sparse;
  }
  for (const json& item : *listed) {
    if (item.get<uint64_t>() < layers) sparse[item.get<size_t>()] = true;
  }
  return sparse;
}

QGrowth read_growth(const JsonFields& config) {
  const double beta = config.number("attn_scale", double{0.1});
  const uint32_t tokens = config.count("floor_scale", kFloor, 1, kMaxWidth);
  if (!config.flag("attn_temperature_tuning", true) || beta == 0.0) return {};
  return {.beta = static_cast<float>(beta), .tokens = tokens, .ahead = 1};
}

ExpertsPlan read_router(const JsonFields& config) {
  ExpertsPlan experts = read_experts(
      config, {.count = 16, .chosen = 1, .width = 8192, .width_key = "intermediate_size"});
  experts.scoring = ExpertScoring::sigmoid;
  experts.factors_first = true;
  experts.shared_width = experts.width;
  return experts;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 202048,
                                  .hidden = 5120,
                                  .intermediate = 16384,
                                  .layers = 48,
                                  .heads = 40,
                                  .kv_heads = 8,
                                  .head_dim = head_dim_unless_null(config, 128),
                                  .context_tokens = 131072,
                                  .bos = 1,
                                  .eos = 2},
                                 plan, {.intermediate = "intermediate_size_mlp"});
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {
      read_rope(config, {.theta = 500000.0, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);

  const std::vector<bool> turning = read_turning(config, shape.layers);
  const std::vector<bool> chunked = read_chunked(config, turning);
  if (turning.size() != shape.layers || chunked.size() != shape.layers) return;
  const uint32_t chunk = config.count("attention_chunk_size", kChunk, 1, kMaxWidth);
  const bool norms = config.flag("use_qk_norm", true);
  const QGrowth growth = read_growth(config);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    SelfAttentionPlan& attention = plan.layers[i].attention;
    attention.window_chunks = chunked[i];
    attention.window_tokens = chunked[i] ? chunk : 0;
    if (!turning[i]) {
      attention.rope = -1;
      attention.q_growth = growth;
    } else if (norms) {
      attention.qk_norm = {.kind = NormKind::rms, .eps = plan.final_norm.eps, .weight = false};
      attention.qk_norm_after_rope = true;
    }
  }
  set_checked_experts(config, read_sparse(config, shape.layers), read_router(config), plan);
  // Of training alone.
  for (const char* key : {"router_aux_loss_coef", "router_jitter_noise", "output_router_logits"}) {
    (void)config.find(key);
  }
}

// What such files do not say is the same in all of them, or follows from the number of experts;
// where it is otherwise, keys of our own say it.
constexpr const char* kOwnChunk = "tenon.attention_chunk_size";
constexpr const char* kOwnChunked = "tenon.chunked_layers";
constexpr const char* kOwnTurning = "tenon.turning_layers";
constexpr const char* kOwnNorms = "tenon.use_qk_norm";
constexpr const char* kOwnGrowth = "tenon.attn_scale";
constexpr const char* kOwnFloor = "tenon.floor_scale";
constexpr uint32_t kExpertsWithoutNorms = 128;

std::vector<bool> usual_layers(size_t layers) {
  std::vector<bool> usual;
  for (size_t i = 0; i < layers; ++i) usual.push_back((i + 1) % kPeriod != 0);
  return usual;
}

// [layers] flags of the file's own key, or the usual ones.
std::vector<bool> stored_layers(const GgufFields& fields, const char* key, size_t layers) {
  const GgufValue* value = fields.find(key);
  if (value == nullptr) return usual_layers(layers);
  const auto numbers = value->integers();
  if (!numbers || numbers->size() != layers) {
    fields.faults().invalid(std::string("'") + key + "' is " + value->describe() +
                            "; expected a flag for each of " + std::to_string(layers) + " layers");
    return usual_layers(layers);
  }
  return {numbers->begin(), numbers->end()};
}

void from_gguf(const GgufFields& fields, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<size_t>();
  // 0: neither chunks nor layers that do not turn.
  const bool whole = fields.count(".attention.sliding_window", kChunk, 0, kMaxWidth) == 0;
  for (const char* key : {"use_sliding_window", "sliding_window", "layer_types"}) config.erase(key);
  config["intermediate_size_mlp"] = config["intermediate_size"];
  experts_from_gguf(fields, {.count = "num_local_experts", .gating = kGgufSigmoid}, config);
  (void)fields.count(".interleave_moe_layer_step", 1, 0, kMaxLayers);
  config["moe_layers"] = ordered_json::array();
  for (size_t i = 0; i < layers; ++i) {
    if (fields.has_tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight")) {
      config["moe_layers"].push_back(i);
    }
  }
  const std::vector<bool> turning = stored_layers(fields, kOwnTurning, layers);
  const std::vector<bool> chunked = stored_layers(fields, kOwnChunked, layers);
  for (size_t i = 0; i < layers; ++i) {
    config["no_rope_layers"].push_back(whole || turning[i] ? 1 : 0);
    config["layer_types"].push_back(!whole && chunked[i] ? "chunked_attention" : "full_attention");
  }
  config["attention_chunk_size"] = fields.count(kOwnChunk, kChunk, 1, kMaxWidth);
  config["use_qk_norm"] =
      fields.flag(kOwnNorms, config["num_local_experts"].get<uint32_t>() != kExpertsWithoutNorms);
  config["floor_scale"] = fields.count(kOwnFloor, kFloor, 1, kMaxWidth);
  config["attn_scale"] = fields.number(kOwnGrowth, 0.1, -1e30, 1e30);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  const auto sparse = std::ranges::find_if(
      plan.layers, [](const LayerPlan& layer) { return static_cast<bool>(layer.experts); });
  out.add_count(architecture + ".interleave_moe_layer_step",
                static_cast<uint32_t>(sparse - plan.layers.begin()) + 1);
  std::vector<bool> turning, chunked;
  QGrowth growth;
  uint32_t chunk = kChunk;
  bool norms = false, any_turns = false;
  for (const LayerPlan& layer : plan.layers) {
    const SelfAttentionPlan& attention = layer.attention;
    turning.push_back(attention.rope >= 0);
    chunked.push_back(attention.window_chunks);
    any_turns = any_turns || turning.back();
    norms = norms || attention.qk_norm;
    if (attention.window_chunks) chunk = attention.window_tokens;
    if (!turning.back()) growth = attention.q_growth;
  }
  const std::vector<bool> usual = usual_layers(plan.layers.size());
  if (turning != usual) out.add_flags(kOwnTurning, turning);
  if (chunked != usual) out.add_flags(kOwnChunked, chunked);
  if (chunk != kChunk) out.add_count(kOwnChunk, chunk);
  const uint32_t experts = sparse == plan.layers.end() ? 0 : sparse->experts.count;
  if (any_turns && norms != (experts != kExpertsWithoutNorms)) out.add_flag(kOwnNorms, norms);
  if (std::ranges::find(turning, false) == turning.end()) return;
  if (growth.beta != kGrowth) out.add_exact(kOwnGrowth, growth.beta);
  if (growth && growth.tokens != kFloor) out.add_count(kOwnFloor, growth.tokens);
}

}  // namespace llama4_family

const Family kLlama4{.model_type = "llama4_text",
                     .class_stem = "Llama4",
                     .architecture = "llama4",
                     .read = llama4_family::read,
                     .tensors = {.names = llama4_family::kNames, .experts = ExpertLayout::turned},
                     .other_stem = "Llama4Text",
                     .gguf_windows = GgufWindows::by_family,
                     .gguf_theta = 500000.0,
                     .from_gguf = llama4_family::from_gguf,
                     .to_gguf = llama4_family::to_gguf};

}  // namespace tenon
