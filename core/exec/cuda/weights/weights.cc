#include "core/exec/cuda/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace tenon::cuda {
namespace {

std::vector<const Weight*> all_matrices(const Model& model, const Head* head) {
  std::vector<const Weight*> all = {&model.embedding};
  if (head != nullptr) all.push_back(&head->fc);
  if (!model.plan.tied_embeddings) all.push_back(&model.head);
  if (model.plan.learned_positions) all.push_back(&model.positions);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight->n_out > 0) all.push_back(weight);
    }
  }
  return all;
}

using ExpertMatrix = Weight ExpertWeights::*;
using ExpertBias = std::vector<float> ExpertWeights::*;

Result<DeviceMatrix> all_experts(const LayerWeights& from, ExpertMatrix which,
                                 WeightUpload& upload) {
  std::vector<const Weight*> weights;
  for (const ExpertWeights& expert : from.experts) weights.push_back(&(expert.*which));
  return upload.matrix(weights);
}

Status load_experts(const LayerWeights& from, WeightUpload& upload, DeviceLayer& to) {
  const std::pair<DeviceMatrix*, ExpertMatrix> matrices[] = {
      {&to.expert_gate, &ExpertWeights::gate},
      {&to.expert_up, &ExpertWeights::up},
      {&to.expert_down, &ExpertWeights::down}};
  for (const auto& [made, which] : matrices) {
    TENON_ASSIGN_OR_RETURN(*made, all_experts(from, which, upload));
  }
  const std::pair<const float**, ExpertBias> biases[] = {
      {&to.expert_gate_bias, &ExpertWeights::gate_bias},
      {&to.expert_up_bias, &ExpertWeights::up_bias},
      {&to.expert_down_bias, &ExpertWeights::down_bias}};
  for (const auto& [made, which] : biases) {
    std::vector<float> all;
    for (const ExpertWeights& expert : from.experts) {
      all.insert(all.end(), (expert.*which).begin(), (expert.*which).end());
    }
    TENON_ASSIGN_OR_RETURN(*made, upload.vector(all));
  }
  for (const auto& [made, weight] :
       {std::pair(&to.router, &from.router), std::pair(&to.shared_router, &from.shared_router)}) {
    const Weight* const one[] = {weight};
    TENON_ASSIGN_OR_RETURN(*made, upload.elements(one, Input::f32));
  }
  return {};
}

// Each is small, and a view of a matrix that may be in blocks: they are not packed.
Result<DeviceMatrix> all_heads(const std::vector<Weight>& from, Input type, WeightUpload& upload) {
  std::vector<const Weight*> weights;
  for (const Weight& head : from) weights.push_back(&head);
  return upload.elements(weights, type);
}

struct StackSource {
  const Weight* matrix;
  const std::vector<float>* bias = nullptr;
};

// Biases one after the other, if all parts have one, or none has.
Status load_biases(std::span<const StackSource> from, WeightUpload& upload, DeviceStack& to) {
  const auto has_bias = [](const StackSource& source) {
    return source.bias != nullptr && !source.bias->empty();
  };
  if (std::ranges::none_of(from, has_bias)) return {};
  if (!std::ranges::all_of(from, has_bias)) {
    to.matrix = {};
    for (size_t i = 0; i < from.size(); ++i) {
      if (!has_bias(from[i])) continue;
      TENON_ASSIGN_OR_RETURN(to.parts[i].bias, upload.vector(*from[i].bias));
    }
    return {};
  }
  std::vector<float> all;
  for (const StackSource& source : from) {
    all.insert(all.end(), source.bias->begin(), source.bias->end());
  }
  TENON_ASSIGN_OR_RETURN(to.bias, upload.vector(all));
  const float* at = to.bias;
  for (size_t i = 0; i < from.size(); ++i) {
    to.parts[i].bias = at;
    if (at != nullptr) at += from[i].bias->size();
  }
  return {};
}

Status load_stack(std::span<const StackSource> from, WeightUpload& upload, DeviceStack& to) {
  std::vector<const Weight*> weights;
  for (const StackSource& source : from) weights.push_back(source.matrix);
  TENON_ASSIGN_OR_RETURN(const StackedMatrices made, upload.stacked(weights));
  for (const DeviceMatrix& part : made.parts) to.parts.push_back({part});
  to.matrix = made.all;
  return load_biases(from, upload, to);
}

Status load_stacks(const LayerWeights& from, WeightUpload& upload, DeviceLayer& to) {
  std::vector<StackSource> qkv = {
      {&from.q, &from.q_bias}, {&from.k, &from.k_bias}, {&from.v, &from.v_bias}};
  if (from.output_gate.n_out > 0) qkv.push_back({&from.output_gate, &from.output_gate_bias});
  TENON_RETURN_IF_ERROR(load_stack(qkv, upload, to.qkv));
  const StackSource gate_up[] = {{&from.gate, &from.gate_bias}, {&from.up, &from.up_bias}};
  TENON_RETURN_IF_ERROR(load_stack(gate_up, upload, to.gate_up));
  const StackSource shared[] = {{&from.shared_gate}, {&from.shared_up}};
  return load_stack(shared, upload, to.shared_gate_up);
}

// An RMS norm with these weights gives q and k the length 1, and divides q by the root of its
// width: x / √(Σx² + ε) = x / √(mean(x²) + ε/n) / √n.
std::vector<float> key_norm(const RecurrentPlan& plan) {
  if (plan.kind != Recurrence::gated_delta) return {};
  const size_t keys = size_t{plan.groups} * plan.state;
  std::vector<float> weights(2 * keys, 1.0f / std::sqrt(static_cast<float>(plan.state)));
  std::fill_n(weights.begin(), keys, 1.0f / static_cast<float>(plan.state));
  return weights;
}

Status load_recurrence(const LayerWeights& from, const RecurrentPlan& plan, WeightUpload& upload,
                       DeviceRecurrence& to) {
  if (!plan) return {};
  const RecurrenceKind& kind = recurrence_kind(plan.kind);
  std::vector<StackSource> inputs;
  const auto add_input = [&](const RecurrentProduct& product) {
    if (product.is_apart(from)) {
      for (const auto part : product.apart) inputs.push_back({&(from.*part)});
      return;
    }
    inputs.push_back(
        {&(from.*product.matrix), product.bias == nullptr ? nullptr : &(from.*product.bias)});
  };
  add_input(kind.inputs.front());
  if (kind.gated) add_input(kRecurrentGate);
  std::ranges::for_each(kind.inputs.subspan(1), add_input);
  TENON_RETURN_IF_ERROR(load_stack(inputs, upload, to.inputs));
  for (const RecurrentParameter& parameter : kind.parameters(plan, from)) {
    const std::span<const float> own(parameter.own);
    TENON_ASSIGN_OR_RETURN(to.parameters.emplace_back(),
                           upload.vector(own.empty() ? parameter.values : own));
  }
  const StackSource low_bc[] = {{&from.ssm_low}, {&from.ssm_bc}};
  TENON_RETURN_IF_ERROR(load_stack(low_bc, upload, to.low_bc));
  TENON_ASSIGN_OR_RETURN(to.dt, upload.matrix(from.ssm_dt));
  TENON_ASSIGN_OR_RETURN(to.out.matrix, upload.matrix(from.ssm_out));
  TENON_ASSIGN_OR_RETURN(to.out.bias, upload.vector(from.ssm_out_bias));
  TENON_ASSIGN_OR_RETURN(to.norm, upload.vector(from.ssm_norm));
  TENON_ASSIGN_OR_RETURN(to.key_norm, upload.vector(key_norm(plan)));
  return {};
}

Status load_shared_block(const LayerWeights& from, const SharedBlockPlan& plan,
                         WeightUpload& upload, DeviceSharedBlock& to) {
  if (!plan) return {};
  const StackSource low[] = {{&from.own_q_low}, {&from.own_k_low}, {&from.own_v_low}};
  TENON_RETURN_IF_ERROR(load_stack(low, upload, to.qkv_low));
  const std::pair<DeviceMatrix*, const Weight*> matrices[] = {
      {&to.q_high, &from.own_q_high},       {&to.k_high, &from.own_k_high},
      {&to.v_high, &from.own_v_high},       {&to.mlp_low, &from.own_mlp_low},
      {&to.gate_high, &from.own_gate_high}, {&to.up_high, &from.own_up_high},
      {&to.link, &from.block_link}};
  for (const auto& [made, weight] : matrices) {
    TENON_ASSIGN_OR_RETURN(*made, upload.matrix(*weight));
  }
  TENON_ASSIGN_OR_RETURN(to.norm, upload.vector(from.block_norm));
  return {};
}

Status load_layer(const Model& model, size_t index, Input type, WeightUpload& upload,
                  DeviceLayer& to) {
  const LayerWeights& from = model.layers[index];
  TENON_RETURN_IF_ERROR(load_stacks(from, upload, to));
  const std::pair<DeviceMatrix*, const Weight*> matrices[] = {{&to.output, &from.output},
                                                              {&to.down, &from.down},
                                                              {&to.shared_down, &from.shared_down},
                                                              {&to.q_a, &from.q_a},
                                                              {&to.kv_a, &from.kv_a}};
  for (const auto& [made, weight] : matrices) {
    TENON_ASSIGN_OR_RETURN(*made, upload.matrix(*weight));
  }
  TENON_ASSIGN_OR_RETURN(to.k_absorb, all_heads(from.k_absorb, type, upload));
  TENON_ASSIGN_OR_RETURN(to.v_expand, all_heads(from.v_expand, type, upload));
  TENON_RETURN_IF_ERROR(load_experts(from, upload, to));
  TENON_RETURN_IF_ERROR(
      load_recurrence(from, model.plan.layers[index].recurrent, upload, to.recurrence));
  TENON_RETURN_IF_ERROR(
      load_shared_block(from, model.plan.layers[index].shared, upload, to.shared));
  const SelfAttentionPlan& attention = model.plan.layers[index].attention;
  if (attention.alibi_max_bias > 0.0f) {
    const std::vector<float> slopes = alibi_slopes(attention.heads, attention.alibi_max_bias);
    TENON_ASSIGN_OR_RETURN(to.slopes, upload.vector(slopes));
  }
  const std::vector<float> none;
  const std::vector<float>& sinks = model.plan.sinks.empty() ? none : model.plan.sinks[index];
  const std::pair<const float**, const std::vector<float>*> vectors[] = {
      {&to.attention_norm, &from.attention_norm},
      {&to.attention_norm_bias, &from.attention_norm_bias},
      {&to.attention_post_norm, &from.attention_post_norm},
      {&to.attention_post_norm_bias, &from.attention_post_norm_bias},
      {&to.mlp_norm, &from.mlp_norm},
      {&to.mlp_norm_bias, &from.mlp_norm_bias},
      {&to.mlp_post_norm, &from.mlp_post_norm},
      {&to.mlp_post_norm_bias, &from.mlp_post_norm_bias},
      {&to.q_norm, &from.q_norm},
      {&to.k_norm, &from.k_norm},
      {&to.q_norm_bias, &from.q_norm_bias},
      {&to.k_norm_bias, &from.k_norm_bias},
      {&to.output_bias, &from.output_bias},
      {&to.down_bias, &from.down_bias},
      {&to.q_a_norm, &from.q_a_norm},
      {&to.kv_a_norm, &from.kv_a_norm},
      {&to.q_a_bias, &from.q_a_bias},
      {&to.kv_a_bias, &from.kv_a_bias},
      {&to.router_bias, &from.router_bias},
      {&to.router_correction, &from.router_correction},
      {&to.sinks, &sinks}};
  for (const auto& [made, values] : vectors) {
    TENON_ASSIGN_OR_RETURN(*made, upload.vector(*values));
  }
  return {};
}

Status load_head(const Head& head, WeightUpload& upload, DeviceHead& to) {
  TENON_ASSIGN_OR_RETURN(to.fc, upload.matrix(head.fc));
  TENON_ASSIGN_OR_RETURN(to.fc_bias, upload.vector(head.fc_bias));
  TENON_ASSIGN_OR_RETURN(to.token_norm, upload.vector(head.token_norm));
  TENON_ASSIGN_OR_RETURN(to.features_norm, upload.vector(head.features_norm));
  TENON_ASSIGN_OR_RETURN(to.state_norm, upload.vector(head.state_norm));
  return {};
}

Status load_arrays(const Model& model, const Head* head, WeightUpload& upload, Input type,
                   DeviceArrays& to) {
  if (head != nullptr) TENON_RETURN_IF_ERROR(load_head(*head, upload, to.entrance));
  TENON_ASSIGN_OR_RETURN(to.embedding, upload.matrix(model.embedding));
  to.head = to.embedding;
  if (!model.plan.tied_embeddings) {
    TENON_ASSIGN_OR_RETURN(to.head, upload.matrix(model.head));
  }
  if (model.plan.learned_positions) {
    const Weight* const positions[] = {&model.positions};
    TENON_ASSIGN_OR_RETURN(to.positions, upload.elements(positions, type));
  }
  TENON_ASSIGN_OR_RETURN(to.embedding_norm, upload.vector(model.embedding_norm));
  TENON_ASSIGN_OR_RETURN(to.embedding_norm_bias, upload.vector(model.embedding_norm_bias));
  TENON_ASSIGN_OR_RETURN(to.final_norm, upload.vector(model.final_norm));
  TENON_ASSIGN_OR_RETURN(to.final_norm_bias, upload.vector(model.final_norm_bias));
  TENON_ASSIGN_OR_RETURN(to.head_bias, upload.vector(model.head_bias));
  to.layers.resize(model.layers.size());
  for (size_t i = 0; i < to.layers.size(); ++i) {
    TENON_RETURN_IF_ERROR(load_layer(model, i, type, upload, to.layers[i]));
  }
  return {};
}

}  // namespace

Input DeviceWeights::type_for(const Model& model, const Head* front) {
  const bool wide = std::ranges::all_of(
      all_matrices(model, front), [](const Weight* weight) { return weight->format == "f32"; });
  return wide ? Input::f32 : Input::bf16;
}

Result<WeightNeeds> DeviceWeights::needs_of(const Model& model, const Head* front) {
  const Input type = type_for(model, front);
  WeightUpload counted(nullptr, type);
  DeviceArrays arrays = {};
  TENON_RETURN_IF_ERROR(load_arrays(model, front, counted, type, arrays));
  WeightNeeds needs;
  needs.bytes = counted.bytes();
  const auto count = [&](const DeviceMatrix& matrix) {
    if (matrix.n_out > 0) ++(matrix.bits == 0 ? needs.dense_matrices : needs.packed_matrices);
  };
  count(arrays.head);
  count(arrays.entrance.fc);
  for (const DeviceLayer& layer : arrays.layers) {
    const DeviceRecurrence& recurrence = layer.recurrence;
    const DeviceSharedBlock& shared = layer.shared;
    for (const DeviceStack* stack : {&layer.qkv, &layer.gate_up, &layer.shared_gate_up,
                                     &recurrence.inputs, &recurrence.low_bc, &shared.qkv_low}) {
      for (const DevicePart& part : stack->parts) count(part.matrix);
    }
    for (const DeviceMatrix* matrix :
         {&layer.output, &layer.down, &layer.shared_down, &layer.q_a, &layer.kv_a, &recurrence.dt,
          &recurrence.out.matrix, &shared.q_high, &shared.k_high, &shared.v_high, &shared.mlp_low,
          &shared.gate_high, &shared.up_high, &shared.link}) {
      count(*matrix);
    }
  }
  return needs;
}

Status DeviceWeights::load(const Model& model, const Head* front) {
  type_ = type_for(model, front);
  WeightUpload upload(&memory_, type_);
  TENON_RETURN_IF_ERROR(load_arrays(model, front, upload, type_, *this));
  has_packed_ = upload.has_packed();
  return {};
}

std::string_view DeviceWeights::numerics() const {
  if (type_ == Input::f32) return "cuda/f32";
  return has_packed_ ? "cuda/bf16+packed" : "cuda/bf16";
}

}  // namespace tenon::cuda
