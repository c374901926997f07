#include "core/model/tensors/tensor_roles.h"

#include <algorithm>

#include "core/model/families/family.h"

namespace tenon {
namespace {

// Llama's, which most families share.
constexpr TensorName kOutside[] = {
    {Role::embedding, "model.embed_tokens", "token_embd"},
    {Role::positions, "model.embed_positions", "position_embd"},
    {Role::embedding_norm, "model.embed_norm", "token_embd_norm"},
    {Role::final_norm, "model.norm", "output_norm"},
    {Role::head, "lm_head", "output"},
};
constexpr TensorName kInLayer[] = {
    {Role::attention_norm, "input_layernorm", "attn_norm"},
    {Role::mlp_norm, "post_attention_layernorm", "ffn_norm"},
    {Role::q, "self_attn.q_proj", "attn_q"},
    {Role::k, "self_attn.k_proj", "attn_k"},
    {Role::v, "self_attn.v_proj", "attn_v"},
    {Role::output, "self_attn.o_proj", "attn_output"},
    {Role::q_norm, "self_attn.q_norm", "attn_q_norm"},
    {Role::k_norm, "self_attn.k_norm", "attn_k_norm"},
    {Role::gate, "mlp.gate_proj", "ffn_gate"},
    {Role::up, "mlp.up_proj", "ffn_up"},
    {Role::down, "mlp.down_proj", "ffn_down"},
    {Role::sinks, "self_attn.sinks", "attn_sinks.weight", true},
    {Role::router, "mlp.gate", "ffn_gate_inp"},
    {Role::router_correction, "mlp.gate.e_score_correction_bias", "exp_probs_b.bias", true},
    {Role::expert_gate, "mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {Role::expert_up, "mlp.experts.*.up_proj", "ffn_up_exps"},
    {Role::expert_down, "mlp.experts.*.down_proj", "ffn_down_exps"},
    {Role::shared_gate, "mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {Role::shared_up, "mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {Role::shared_down, "mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {Role::shared_router, "mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};
constexpr std::string_view kBlocks = "blk.";

// A family's own names in place of the common ones. An empty name takes a role away.
std::vector<TensorName> merged(std::span<const TensorName> common, std::span<const TensorName> own,
                               bool in_layer) {
  std::vector<TensorName> names(common.begin(), common.end());
  for (const TensorName& name : own) {
    if ((name.role >= Role::attention_norm) != in_layer) continue;
    std::erase_if(names, [&](const TensorName& other) { return other.role == name.role; });
    if (!name.name.empty()) names.push_back(name);
  }
  return names;
}

using Member = std::string_view TensorName::*;

// The stem without ".weight" or ".bias" replaced, when the table has it.
std::string translated(std::string_view text, std::span<const TensorName> table, Member from,
                       Member to) {
  const size_t dot = text.rfind('.');
  const std::string_view stem = text.substr(0, dot);
  for (const TensorName& name : table) {
    if (name.whole && name.*from == text) return std::string(name.*to);
    if (name.whole) continue;
    if (dot == std::string_view::npos || name.*from != stem) continue;
    return std::string(name.*to).append(text.substr(dot));
  }
  return std::string(text);
}

// Lists the tensors of one plan.
class Lister {
 public:
  Lister(const ModelPlan& plan, std::vector<TensorSpec>& out)
      : plan_(plan), names_(plan), out_(out) {}

  void matrix(Role role, uint64_t rows, Axis rows_axis, uint64_t columns, Axis columns_axis,
              bool bias = false) {
    out_.push_back({role, layer_, false, names_.full(role, layer_, false), rows, columns, rows_axis,
                    columns_axis, experts_});
    if (bias) vector(role, true, rows, rows_axis);
  }
  void vector(Role role, bool bias, uint64_t length, Axis axis) {
    out_.push_back({role, layer_, bias, names_.full(role, layer_, bias), length, 0, axis,
                    Axis::none, experts_});
  }
  void norm(Role role, const NormPlan& norm, uint64_t width, Axis axis) {
    if (!norm) return;
    if (norm.weight) vector(role, false, width, axis);
    if (norm.bias) vector(role, true, width, axis);
  }
  // Numbers of a recurrence: extents in folders, and in GGUF files.
  void parameter(Role role, std::vector<uint64_t> shape, std::vector<uint64_t> stored_shape) {
    uint64_t length = 1;
    for (const uint64_t extent : shape) length *= extent;
    vector(role, false, length, Axis::other);
    out_.back().shape = std::move(shape);
    out_.back().stored_shape = std::move(stored_shape);
  }
  void layer(uint32_t index);

 private:
  void recurrence(const RecurrentPlan& recurrent);
  void mamba(const RecurrentPlan& recurrent);
  void mamba2(const RecurrentPlan& recurrent);
  void attention(const SelfAttentionPlan& attention);
  void latent(const SelfAttentionPlan& attention, const LatentAttentionPlan& latent);
  void qk_norm(const SelfAttentionPlan& attention);
  void mlp(const MlpPlan& mlp);
  void experts(const ExpertsPlan& experts);

  const ModelPlan& plan_;
  TensorNames names_;
  std::vector<TensorSpec>& out_;
  int32_t layer_ = -1;
  uint32_t experts_ = 0;
};

void Lister::layer(uint32_t index) {
  layer_ = static_cast<int32_t>(index);
  const LayerPlan& layer = plan_.layers[index];
  norm(Role::attention_norm, layer.attention_norm, plan_.hidden, Axis::hidden);
  if (layer.latent) {
    latent(layer.attention, layer.latent);
  } else if (layer.attends()) {
    attention(layer.attention);
  }
  if (layer.recurrent) recurrence(layer.recurrent);
  norm(Role::attention_post_norm, layer.attention_post_norm, plan_.hidden, Axis::hidden);
  norm(Role::mlp_norm, layer.mlp_norm, plan_.hidden, Axis::hidden);
  if (layer.experts) {
    experts(layer.experts);
  } else if (layer.has_mlp()) {
    mlp(layer.mlp);
  }
  norm(Role::mlp_post_norm, layer.mlp_post_norm, plan_.hidden, Axis::hidden);
  layer_ = -1;
}

void Lister::attention(const SelfAttentionPlan& a) {
  if (names_.has(Role::qkv)) {
    matrix(Role::qkv, a.q_width() + 2 * uint64_t{a.kv_width()}, Axis::other, plan_.hidden,
           Axis::hidden, a.qkv_bias);
  } else {
    matrix(Role::q, a.q_width(), Axis::heads, plan_.hidden, Axis::hidden, a.qkv_bias);
  }
  if (!names_.has(Role::qkv) && a.kv_from_layer < 0) {
    matrix(Role::k, a.kv_width(), Axis::kv_heads, plan_.hidden, Axis::hidden, a.qkv_bias);
    matrix(Role::v, a.kv_width(), Axis::kv_heads, plan_.hidden, Axis::hidden, a.qkv_bias);
  }
  if (a.qk_norm) qk_norm(a);
  matrix(Role::output, plan_.hidden, Axis::hidden, a.q_width(), Axis::heads, a.output_bias);
  if (a.sinks) vector(Role::sinks, false, a.heads, Axis::other);
}

void Lister::recurrence(const RecurrentPlan& r) {
  const uint64_t into = r.kind == Recurrence::mamba ? 2 * uint64_t{r.inner()}
                                                    : uint64_t{r.inner()} + r.channels() + r.heads;
  matrix(Role::ssm_in, into, Axis::other, plan_.hidden, Axis::hidden, r.projection_bias);
  parameter(Role::ssm_conv, {r.channels(), 1, r.width}, {r.channels(), r.width});
  if (r.convolution_bias) vector(Role::ssm_conv, true, r.channels(), Axis::other);
  r.kind == Recurrence::mamba ? mamba(r) : mamba2(r);
  matrix(Role::ssm_out, plan_.hidden, Axis::hidden, r.inner(), Axis::other, r.projection_bias);
}

void Lister::mamba(const RecurrentPlan& r) {
  matrix(Role::ssm_x, uint64_t{r.step_rank} + 2 * r.state, Axis::other, r.inner(), Axis::other);
  matrix(Role::ssm_dt, r.inner(), Axis::other, r.step_rank, Axis::other, true);
  parameter(Role::ssm_a, {r.inner(), r.state}, {r.inner(), r.state});
  parameter(Role::ssm_d, {r.inner()}, {r.inner()});
}

// GGUF files store the numbers of heads as columns, and the norm's weights a group a row.
void Lister::mamba2(const RecurrentPlan& r) {
  parameter(Role::ssm_dt_bias, {r.heads}, {r.heads});
  parameter(Role::ssm_a, {r.heads}, {r.heads, 1});
  parameter(Role::ssm_d, {r.heads}, {r.heads, 1});
  parameter(Role::ssm_norm, {r.inner()}, {r.groups, r.inner() / r.groups});
}

void Lister::qk_norm(const SelfAttentionPlan& a) {
  const bool one = a.qk_norm_extent == QkNormExtent::head;
  norm(Role::q_norm, a.qk_norm, one ? a.head_dim : a.q_width(), one ? Axis::head_dim : Axis::heads);
  if (a.kv_from_layer >= 0) return;
  norm(Role::k_norm, a.qk_norm, one ? a.head_dim : a.kv_width(),
       one ? Axis::head_dim : Axis::kv_heads);
}

void Lister::latent(const SelfAttentionPlan& a, const LatentAttentionPlan& l) {
  const uint64_t heads = a.heads;
  if (l.q_rank > 0) {
    matrix(Role::q_a, l.q_rank, Axis::other, plan_.hidden, Axis::hidden, l.bias);
    norm(Role::q_a_norm, l.norm, l.q_rank, Axis::other);
    matrix(Role::q_b, heads * l.q_dim(), Axis::other, l.q_rank, Axis::other);
  } else {
    matrix(Role::q, heads * l.q_dim(), Axis::other, plan_.hidden, Axis::hidden);
  }
  matrix(Role::kv_a, l.row_dim(), Axis::other, plan_.hidden, Axis::hidden, l.bias);
  norm(Role::kv_a_norm, l.norm, l.kv_rank, Axis::other);
  matrix(Role::kv_b, heads * (l.nope_dim + l.v_dim), Axis::other, l.kv_rank, Axis::other);
  matrix(Role::output, plan_.hidden, Axis::hidden, heads * l.v_dim, Axis::other, a.output_bias);
}

void Lister::mlp(const MlpPlan& m) {
  if (m.gated && names_.has(Role::gate_up)) {
    matrix(Role::gate_up, 2 * uint64_t{m.width}, Axis::other, plan_.hidden, Axis::hidden, m.bias);
  } else {
    if (m.gated) {
      matrix(Role::gate, m.width, Axis::intermediate, plan_.hidden, Axis::hidden, m.bias);
    }
    matrix(Role::up, m.width, Axis::intermediate, plan_.hidden, Axis::hidden, m.bias);
  }
  matrix(Role::down, plan_.hidden, Axis::hidden, m.width, Axis::intermediate, m.bias);
}

void Lister::experts(const ExpertsPlan& e) {
  constexpr Axis kHidden = Axis::hidden, kOther = Axis::other;
  matrix(Role::router, e.count, kOther, plan_.hidden, kHidden, e.router_bias);
  if (e.correction) vector(Role::router_correction, false, e.count, kOther);
  experts_ = e.count;
  matrix(Role::expert_gate, e.width, kOther, plan_.hidden, kHidden, e.bias);
  matrix(Role::expert_up, e.width, kOther, plan_.hidden, kHidden, e.bias);
  matrix(Role::expert_down, plan_.hidden, kHidden, e.width, kOther, e.bias);
  experts_ = 0;
  if (e.shared_width == 0) return;
  if (names_.has(Role::shared_gate_up)) {
    matrix(Role::shared_gate_up, 2 * uint64_t{e.shared_width}, kOther, plan_.hidden, kHidden);
  } else {
    matrix(Role::shared_gate, e.shared_width, kOther, plan_.hidden, kHidden);
    matrix(Role::shared_up, e.shared_width, kOther, plan_.hidden, kHidden);
  }
  matrix(Role::shared_down, plan_.hidden, kHidden, e.shared_width, kOther);
  if (e.shared_gate) matrix(Role::shared_router, 1, kOther, plan_.hidden, kHidden);
}

}  // namespace

std::string expert_name(std::string_view name, uint32_t expert) {
  const size_t star = name.find('*');
  return std::string(name.substr(0, star))
      .append(std::to_string(expert))
      .append(name.substr(star + 1));
}

std::string stacked_name(std::string_view name, std::string_view tensor) {
  return std::string(name.substr(0, name.find('*'))).append(tensor);
}

const NormPlan* norm_of(const ModelPlan& plan, const TensorSpec& spec) {
  if (spec.role == Role::final_norm) return &plan.final_norm;
  if (spec.role == Role::embedding_norm) return &plan.embedding_norm;
  if (spec.layer < 0) return nullptr;
  const LayerPlan& layer = plan.layers[static_cast<size_t>(spec.layer)];
  switch (spec.role) {
    case Role::attention_norm:
      return &layer.attention_norm;
    case Role::attention_post_norm:
      return &layer.attention_post_norm;
    case Role::mlp_norm:
      return &layer.mlp_norm;
    case Role::mlp_post_norm:
      return &layer.mlp_post_norm;
    case Role::q_norm:
    case Role::k_norm:
      return &layer.attention.qk_norm;
    case Role::q_a_norm:
    case Role::kv_a_norm:
      return &layer.latent.norm;
    case Role::ssm_norm:
      return &layer.recurrent.gate_norm;
    default:
      return nullptr;
  }
}

std::vector<TensorSpec> list_tensors(const ModelPlan& plan) {
  std::vector<TensorSpec> list;
  Lister lister(plan, list);
  lister.matrix(Role::embedding, plan.vocabulary, Axis::vocabulary, plan.hidden, Axis::hidden);
  if (plan.learned_positions) {
    lister.matrix(Role::positions, plan.context_tokens, Axis::other, plan.hidden, Axis::hidden);
  }
  lister.norm(Role::embedding_norm, plan.embedding_norm, plan.hidden, Axis::hidden);
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) lister.layer(layer);
  lister.norm(Role::final_norm, plan.final_norm, plan.hidden, Axis::hidden);
  if (!plan.tied_embeddings) {
    lister.matrix(Role::head, plan.vocabulary, Axis::vocabulary, plan.hidden, Axis::hidden);
  }
  if (plan.head_bias) lister.vector(Role::head, true, plan.vocabulary, Axis::vocabulary);
  return list;
}

TensorNames::TensorNames(const Family& family)
    : layers_(std::string(family.tensors.base).append(family.tensors.layers)),
      outside_(merged(kOutside, family.tensors.names, false)),
      in_layer_(merged(kInLayer, family.tensors.names, true)) {}

TensorNames::TensorNames(const ModelPlan& plan) : TensorNames(family_of(plan)) {
  const FamilyTensors& tensors = family_of(plan).tensors;
  const LayerPlan& layer = plan.layers.front();
  if (layer.parallel && layer.mlp_norm) in_layer_ = merged(in_layer_, tensors.two_norm_names, true);
  if (std::ranges::any_of(plan.layers, [](const LayerPlan& l) { return bool{l.experts}; })) {
    in_layer_ = merged(in_layer_, tensors.expert_names, true);
  }
}

const TensorName* TensorNames::find(Role role) const {
  const std::vector<TensorName>& table = role >= Role::attention_norm ? in_layer_ : outside_;
  const auto found = std::ranges::find(table, role, &TensorName::role);
  return found == table.end() ? nullptr : &*found;
}

std::string TensorNames::stem(Role role, int32_t layer) const {
  const TensorName* name = find(role);
  const std::string own(name != nullptr ? name->name : "?");
  return layer < 0 ? own : layers_ + std::to_string(layer) + "." + own;
}

std::string TensorNames::full(Role role, int32_t layer, bool bias) const {
  const TensorName* name = find(role);
  const bool whole = name != nullptr && name->whole;
  return stem(role, layer) + (whole ? "" : bias ? ".bias" : ".weight");
}

std::string TensorNames::stored(std::string_view name) const {
  if (!name.starts_with(layers_)) {
    return translated(name, outside_, &TensorName::name, &TensorName::stored);
  }
  const size_t behind = name.find('.', layers_.size());
  if (behind == std::string_view::npos) return std::string(name);
  std::string out(kBlocks);
  out += name.substr(layers_.size(), behind + 1 - layers_.size());
  return out +
         translated(name.substr(behind + 1), in_layer_, &TensorName::name, &TensorName::stored);
}

std::string TensorNames::name_of_stored(std::string_view stored) const {
  if (!stored.starts_with(kBlocks)) {
    return translated(stored, outside_, &TensorName::stored, &TensorName::name);
  }
  const size_t behind = stored.find('.', kBlocks.size());
  if (behind == std::string_view::npos) return std::string(stored);
  std::string out(layers_);
  out += stored.substr(kBlocks.size(), behind + 1 - kBlocks.size());
  return out +
         translated(stored.substr(behind + 1), in_layer_, &TensorName::stored, &TensorName::name);
}

}  // namespace tenon
