#include "core/model/tensors/tensor_places.h"

namespace tenon {
namespace {

struct MatrixMembers {
  Role role;
  Weight LayerWeights::*matrix;
  std::vector<float> LayerWeights::*bias;
};
constexpr MatrixMembers kMatrices[] = {
    {Role::q, &LayerWeights::q, &LayerWeights::q_bias},
    {Role::k, &LayerWeights::k, &LayerWeights::k_bias},
    {Role::v, &LayerWeights::v, &LayerWeights::v_bias},
    {Role::output, &LayerWeights::output, &LayerWeights::output_bias},
    {Role::gate, &LayerWeights::gate, &LayerWeights::gate_bias},
    {Role::up, &LayerWeights::up, &LayerWeights::up_bias},
    {Role::down, &LayerWeights::down, &LayerWeights::down_bias},
    {Role::q_a, &LayerWeights::q_a, &LayerWeights::q_a_bias},
    {Role::q_b, &LayerWeights::q, &LayerWeights::q_bias},
    {Role::kv_a, &LayerWeights::kv_a, &LayerWeights::kv_a_bias},
    {Role::ssm_in_gate, &LayerWeights::ssm_gate, &LayerWeights::ssm_gate_bias},
    {Role::ssm_in_x, &LayerWeights::ssm_in, &LayerWeights::ssm_in_bias},
    {Role::ssm_in_step, &LayerWeights::ssm_step, &LayerWeights::ssm_step_bias},
    {Role::ssm_x_low, &LayerWeights::ssm_low, nullptr},
    {Role::ssm_x_bc, &LayerWeights::ssm_bc, nullptr},
    {Role::ssm_dt, &LayerWeights::ssm_dt, &LayerWeights::ssm_dt_bias},
    {Role::ssm_out, &LayerWeights::ssm_out, &LayerWeights::ssm_out_bias},
    {Role::router, &LayerWeights::router, &LayerWeights::router_bias},
    {Role::shared_gate, &LayerWeights::shared_gate, nullptr},
    {Role::shared_up, &LayerWeights::shared_up, nullptr},
    {Role::shared_down, &LayerWeights::shared_down, nullptr},
    {Role::shared_router, &LayerWeights::shared_router, nullptr},
};

struct ExpertMembers {
  Role role;
  Weight ExpertWeights::*matrix;
  std::vector<float> ExpertWeights::*bias;
};
constexpr ExpertMembers kOfExperts[] = {
    {Role::expert_gate, &ExpertWeights::gate, &ExpertWeights::gate_bias},
    {Role::expert_up, &ExpertWeights::up, &ExpertWeights::up_bias},
    {Role::expert_down, &ExpertWeights::down, &ExpertWeights::down_bias},
};

// Vectors that belong to no matrix: norms, and the numbers of recurrences.
struct VectorMembers {
  Role role;
  std::vector<float> LayerWeights::*scale;
  std::vector<float> LayerWeights::*bias;
};
constexpr VectorMembers kVectors[] = {
    {Role::attention_norm, &LayerWeights::attention_norm, &LayerWeights::attention_norm_bias},
    {Role::attention_post_norm, &LayerWeights::attention_post_norm,
     &LayerWeights::attention_post_norm_bias},
    {Role::mlp_norm, &LayerWeights::mlp_norm, &LayerWeights::mlp_norm_bias},
    {Role::mlp_post_norm, &LayerWeights::mlp_post_norm, &LayerWeights::mlp_post_norm_bias},
    {Role::q_norm, &LayerWeights::q_norm, &LayerWeights::q_norm_bias},
    {Role::k_norm, &LayerWeights::k_norm, &LayerWeights::k_norm_bias},
    {Role::q_a_norm, &LayerWeights::q_a_norm, nullptr},
    {Role::kv_a_norm, &LayerWeights::kv_a_norm, nullptr},
    {Role::ssm_conv, &LayerWeights::ssm_conv, &LayerWeights::ssm_conv_bias},
    {Role::ssm_dt_bias, &LayerWeights::ssm_dt_bias, nullptr},
    {Role::ssm_a, &LayerWeights::ssm_a, nullptr},
    {Role::ssm_d, &LayerWeights::ssm_d, nullptr},
    {Role::ssm_norm, &LayerWeights::ssm_norm, nullptr},
};

// The roles that a tensor holds, in its order, with their rows.
std::vector<std::pair<Role, uint64_t>> parts_of(const TensorSpec& spec, const ModelPlan& plan) {
  if (spec.role == Role::qkv) {
    const SelfAttentionPlan& a = plan.layers[static_cast<size_t>(spec.layer)].attention;
    return {{Role::q, a.q_width()}, {Role::k, a.kv_width()}, {Role::v, a.kv_width()}};
  }
  if (spec.role == Role::ssm_in || spec.role == Role::ssm_x) {
    const RecurrentPlan& r = plan.layers[static_cast<size_t>(spec.layer)].recurrent;
    if (spec.role == Role::ssm_x) {
      return {{Role::ssm_x_low, r.step_rank}, {Role::ssm_x_bc, 2 * uint64_t{r.state}}};
    }
    if (r.kind == Recurrence::mamba) {
      return {{Role::ssm_in_x, r.inner()}, {Role::ssm_in_gate, r.inner()}};
    }
    return {{Role::ssm_in_gate, r.inner()},
            {Role::ssm_in_x, r.channels()},
            {Role::ssm_in_step, r.heads}};
  }
  if (holds_gate_and_up(spec.role)) {
    const auto [gate, up] = gate_and_up(spec.role);
    return {{gate, spec.rows / 2}, {up, spec.rows / 2}};
  }
  return {{spec.role, spec.rows}};
}

template <typename Place, typename AnyModel>
Place outside(AnyModel& model, const TensorSpec& spec) {
  if (spec.role == Role::final_norm) {
    return {spec.rows, nullptr, spec.bias ? &model.final_norm_bias : &model.final_norm};
  }
  if (spec.role == Role::embedding_norm) {
    return {spec.rows, nullptr, spec.bias ? &model.embedding_norm_bias : &model.embedding_norm};
  }
  if (spec.role == Role::head && spec.bias) return {spec.rows, nullptr, &model.head_bias};
  auto* matrix = spec.role == Role::head        ? &model.head
                 : spec.role == Role::positions ? &model.positions
                                                : &model.embedding;
  return {spec.rows, matrix, nullptr};
}

// K and V of one head after the other.
template <typename Place, typename AnyLayer>
std::vector<Place> latent_heads(AnyLayer& layer, const LatentAttentionPlan& latent) {
  std::vector<Place> found;
  for (size_t head = 0; head < layer.k_absorb.size(); ++head) {
    found.push_back({latent.nope_dim, &layer.k_absorb[head], nullptr, true});
    found.push_back({latent.v_dim, &layer.v_expand[head], nullptr});
  }
  return found;
}

// One an expert.
template <typename Place, typename AnyLayer>
std::vector<Place> in_experts(AnyLayer& layer, const TensorSpec& spec) {
  std::vector<Place> found;
  for (const ExpertMembers& members : kOfExperts) {
    if (members.role != spec.role) continue;
    for (auto& expert : layer.experts) {
      if (spec.bias) found.push_back({spec.rows, nullptr, &(expert.*members.bias)});
      if (!spec.bias) found.push_back({spec.rows, &(expert.*members.matrix), nullptr});
    }
  }
  return found;
}

template <typename Place, typename AnyModel>
std::vector<Place> places(AnyModel& model, const TensorSpec& spec) {
  if (spec.layer < 0) return {outside<Place>(model, spec)};
  auto& layer = model.layers[static_cast<size_t>(spec.layer)];
  if (spec.role == Role::kv_b) {
    return latent_heads<Place>(layer, model.plan.layers[static_cast<size_t>(spec.layer)].latent);
  }
  if (spec.experts > 0) return in_experts<Place>(layer, spec);
  if (spec.role == Role::router_correction) {
    return {{spec.rows, nullptr, &layer.router_correction}};
  }
  if (spec.role == Role::sinks) {
    return {{spec.rows, nullptr, &model.plan.sinks[static_cast<size_t>(spec.layer)]}};
  }
  for (const VectorMembers& own : kVectors) {
    if (own.role != spec.role) continue;
    return {{spec.rows, nullptr, spec.bias ? &(layer.*own.bias) : &(layer.*own.scale)}};
  }
  std::vector<Place> found;
  for (const auto& [role, rows] : parts_of(spec, model.plan)) {
    for (const MatrixMembers& matrix : kMatrices) {
      if (matrix.role != role) continue;
      if (spec.bias) found.push_back({rows, nullptr, &(layer.*matrix.bias)});
      if (!spec.bias) found.push_back({rows, &(layer.*matrix.matrix), nullptr});
    }
  }
  return found;
}

}  // namespace

std::vector<TensorPlace> places_of(Model& model, const TensorSpec& spec) {
  return places<TensorPlace>(model, spec);
}

std::vector<ConstTensorPlace> places_of(const Model& model, const TensorSpec& spec) {
  return places<ConstTensorPlace>(model, spec);
}

}  // namespace tenon
