#include "core/exec/cuda/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
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

// The rank's rows of a matrix, and who has which.
Result<DeviceMatrix> cut_matrix(const Weight& weight, WeightCut& cut, WeightUpload& upload) {
  const CutWeights own = cut.rows(weight);
  TENON_ASSIGN_OR_RETURN(DeviceMatrix made, upload.matrix(own.own));
  made.starts = own.starts;
  return made;
}

// Matrices that are cut alike, in groups that are one matrix each on the device.
Status load_alike(std::span<const std::vector<const Weight*>> groups, WeightCut& cut,
                  WeightUpload& upload, std::span<DeviceMatrix* const> to) {
  std::vector<const Weight*> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  const CutWeights own = cut.rows_of_all(all);
  auto next = own.own.begin();
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto end = next + static_cast<ptrdiff_t>(groups[i].size());
    TENON_ASSIGN_OR_RETURN(*to[i], upload.matrix(std::span(next, end)));
    to[i]->starts = own.starts;
    next = end;
  }
  return {};
}

Status load_experts(const LayerWeights& from, WeightCut& cut, WeightUpload& upload,
                    DeviceLayer& to) {
  const auto all_experts = [&](ExpertMatrix which) {
    std::vector<const Weight*> all;
    for (const ExpertWeights& expert : from.experts) all.push_back(&(expert.*which));
    return all;
  };
  if (!from.experts.empty()) {
    const std::vector<const Weight*> gate_up[] = {all_experts(&ExpertWeights::gate),
                                                  all_experts(&ExpertWeights::up)};
    DeviceMatrix* const to_gate_up[] = {&to.expert_gate, &to.expert_up};
    TENON_RETURN_IF_ERROR(load_alike(gate_up, cut, upload, to_gate_up));
    std::vector<const Weight*> down[] = {all_experts(&ExpertWeights::down), {}};
    const bool shares = from.shared_down.n_out > 0;
    if (shares) down[1].push_back(&from.shared_down);
    DeviceMatrix* const to_down[] = {&to.expert_down, &to.shared_down};
    TENON_RETURN_IF_ERROR(load_alike(std::span(down).first(shares ? 2 : 1), cut, upload, to_down));
  }
  const std::tuple<const float**, ExpertBias, const DeviceMatrix*> biases[] = {
      {&to.expert_gate_bias, &ExpertWeights::gate_bias, &to.expert_gate},
      {&to.expert_up_bias, &ExpertWeights::up_bias, &to.expert_up},
      {&to.expert_down_bias, &ExpertWeights::down_bias, &to.expert_down}};
  for (const auto& [made, which, matrix] : biases) {
    std::vector<float> all;
    for (const ExpertWeights& expert : from.experts) {
      const std::vector<float> own = cut.values(expert.*which, matrix->starts);
      all.insert(all.end(), own.begin(), own.end());
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

// A gate and an up, or an up alone.
Status load_gate_up(const StackSource& gate, const StackSource& up, WeightCut& cut,
                    WeightUpload& upload, DeviceStack& to) {
  const Weight* const both[] = {gate.matrix, up.matrix};
  const bool gated = gate.matrix->n_out > 0;
  const CutWeights own = cut.rows_of_all(std::span(both).subspan(gated ? 0 : 1));
  const std::vector<float> none;
  const auto cut_bias = [&](const StackSource& source) {
    return cut.values(source.bias == nullptr ? none : *source.bias, own.starts);
  };
  const std::vector<float> gate_bias = cut_bias(gate), up_bias = cut_bias(up);
  const StackSource sources[] = {{gated ? own.own.front() : gate.matrix, &gate_bias},
                                 {own.own.back(), &up_bias}};
  TENON_RETURN_IF_ERROR(load_stack(sources, upload, to));
  for (DevicePart& part : to.parts) part.matrix.starts = own.starts;
  if (!gated) to.parts.front().matrix.starts = nullptr;
  return {};
}

Status load_stacks(const LayerWeights& from, WeightCut& cut, WeightUpload& upload,
                   DeviceLayer& to) {
  std::vector<StackSource> qkv = {
      {&from.q, &from.q_bias}, {&from.k, &from.k_bias}, {&from.v, &from.v_bias}};
  if (from.output_gate.n_out > 0) qkv.push_back({&from.output_gate, &from.output_gate_bias});
  TENON_RETURN_IF_ERROR(load_stack(qkv, upload, to.qkv));
  TENON_RETURN_IF_ERROR(load_gate_up({&from.gate, &from.gate_bias}, {&from.up, &from.up_bias}, cut,
                                     upload, to.gate_up));
  return load_gate_up({&from.shared_gate}, {&from.shared_up}, cut, upload, to.shared_gate_up);
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

Status load_recurrence(const LayerWeights& from, const RecurrentPlan& plan, WeightCut& cut,
                       WeightUpload& upload, DeviceRecurrence& to) {
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
  TENON_ASSIGN_OR_RETURN(to.out.matrix, cut_matrix(from.ssm_out, cut, upload));
  TENON_ASSIGN_OR_RETURN(to.out.bias,
                         upload.vector(cut.values(from.ssm_out_bias, to.out.matrix.starts)));
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

Status load_layer(const Model& model, size_t index, Input type, WeightCut& of_model,
                  WeightUpload& upload, DeviceLayer& to) {
  const LayerWeights& from = model.layers[index];
  // What blocks that layers share make is changed before it is gathered: all ranks have them whole.
  WeightCut whole;
  WeightCut& cut = model.plan.layers[index].shared ? whole : of_model;
  TENON_RETURN_IF_ERROR(load_stacks(from, cut, upload, to));
  const std::pair<DeviceMatrix*, const Weight*> matrices[] = {{&to.output, &from.output},
                                                              {&to.down, &from.down}};
  for (const auto& [made, weight] : matrices) {
    TENON_ASSIGN_OR_RETURN(*made, cut_matrix(*weight, cut, upload));
  }
  // Small, and followed by a norm over all columns.
  TENON_ASSIGN_OR_RETURN(to.q_a, upload.matrix(from.q_a));
  TENON_ASSIGN_OR_RETURN(to.kv_a, upload.matrix(from.kv_a));
  TENON_ASSIGN_OR_RETURN(to.k_absorb, all_heads(from.k_absorb, type, upload));
  TENON_ASSIGN_OR_RETURN(to.v_expand, all_heads(from.v_expand, type, upload));
  TENON_RETURN_IF_ERROR(load_experts(from, cut, upload, to));
  TENON_RETURN_IF_ERROR(
      load_recurrence(from, model.plan.layers[index].recurrent, cut, upload, to.recurrence));
  TENON_RETURN_IF_ERROR(
      load_shared_block(from, model.plan.layers[index].shared, upload, to.shared));
  const SelfAttentionPlan& attention = model.plan.layers[index].attention;
  if (attention.alibi_max_bias > 0.0f) {
    const std::vector<float> slopes = alibi_slopes(attention.heads, attention.alibi_max_bias);
    TENON_ASSIGN_OR_RETURN(to.slopes, upload.vector(slopes));
  }
  const std::vector<float> none;
  const std::vector<float> output_bias = cut.values(from.output_bias, to.output.starts);
  const std::vector<float> down_bias = cut.values(from.down_bias, to.down.starts);
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
      {&to.output_bias, &output_bias},
      {&to.down_bias, &down_bias},
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

Status load_arrays(const Model& model, const Head* head, WeightCut& cut, WeightUpload& upload,
                   Input type, DeviceArrays& to) {
  if (head != nullptr) TENON_RETURN_IF_ERROR(load_head(*head, upload, to.entrance));
  TENON_ASSIGN_OR_RETURN(to.embedding, cut_matrix(model.embedding, cut, upload));
  to.head = to.embedding;
  if (!model.plan.tied_embeddings) {
    TENON_ASSIGN_OR_RETURN(to.head, cut_matrix(model.head, cut, upload));
  }
  if (model.plan.learned_positions) {
    const Weight* const positions[] = {&model.positions};
    TENON_ASSIGN_OR_RETURN(to.positions, upload.elements(positions, type));
  }
  TENON_ASSIGN_OR_RETURN(to.embedding_norm, upload.vector(model.embedding_norm));
  TENON_ASSIGN_OR_RETURN(to.embedding_norm_bias, upload.vector(model.embedding_norm_bias));
  TENON_ASSIGN_OR_RETURN(to.final_norm, upload.vector(model.final_norm));
  TENON_ASSIGN_OR_RETURN(to.final_norm_bias, upload.vector(model.final_norm_bias));
  TENON_ASSIGN_OR_RETURN(to.head_bias, upload.vector(cut.values(model.head_bias, to.head.starts)));
  to.layers.resize(model.layers.size());
  for (size_t i = 0; i < to.layers.size(); ++i) {
    TENON_RETURN_IF_ERROR(load_layer(model, i, type, cut, upload, to.layers[i]));
  }
  return {};
}

// Whether a matrix stays packed may follow from all of its zero points, of which a rank sees its
// own: the matrix that one rank widens, another one may not.
Status check_judged_alike(const Model& model, const Head* head) {
  for (const Weight* weight : all_matrices(model, head)) {
    if (!has_fractional_zeros(*weight)) continue;
    return unsupported(
        weight->name +
        " has zero points that are no whole numbers, which the executor 'cuda' does not cut over "
        "ranks; set parallel.tensor = 1, or choose [executor] plugin = \"cpu\"");
  }
  return {};
}

}  // namespace

Input DeviceWeights::type_for(const Model& model, const Head* front) {
  const bool wide = std::ranges::all_of(
      all_matrices(model, front), [](const Weight* weight) { return weight->format == "f32"; });
  return wide ? Input::f32 : Input::bf16;
}

Result<WeightNeeds> DeviceWeights::needs_of(const Model& model, const Head* front,
                                            const ModelCut* of_model) {
  const Input type = type_for(model, front);
  WeightUpload counted(nullptr, type);
  DeviceArrays arrays = {};
  WeightCut cut(of_model);
  if (cut.on()) TENON_RETURN_IF_ERROR(check_judged_alike(model, front));
  TENON_RETURN_IF_ERROR(load_arrays(model, front, cut, counted, type, arrays));
  WeightNeeds needs;
  needs.bytes = counted.bytes();
  const auto count = [&](const DeviceMatrix& matrix) {
    if (matrix.is_there()) ++(matrix.bits == 0 ? needs.dense_matrices : needs.packed_matrices);
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

Status DeviceWeights::load(const Model& model, const Head* front, const ModelCut* cut) {
  type_ = type_for(model, front);
  cut_ = WeightCut(cut);
  WeightUpload upload(&memory_, type_);
  TENON_RETURN_IF_ERROR(load_arrays(model, front, cut_, upload, type_, *this));
  has_packed_ = upload.has_packed();
  return {};
}

std::string_view DeviceWeights::numerics() const {
  if (type_ == Input::f32) return "cuda/f32";
  return has_packed_ ? "cuda/bf16+packed" : "cuda/bf16";
}

}  // namespace tenon::cuda
