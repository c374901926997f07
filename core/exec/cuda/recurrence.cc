// The recurrent half of a layer: projections as products, what lies between as kernels of its own.
#include "core/exec/cuda/recurrence.h"

#include <algorithm>
#include <utility>

#include "core/exec/cuda/step.h"

namespace tenon::cuda {
namespace {

uint64_t input_bytes(uint32_t width, Input type) {
  const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(width));
  return stride * (type == Input::f32 ? sizeof(float) : sizeof(uint16_t));
}

// The largest of all layers, of a row.
struct RecurrentWidths {
  uint64_t entering = 0, channels = 0, low_bc = 0, steps = 0;  // numbers
  uint64_t inner_bytes = 0, low_bytes = 0;                     // of inputs

  RecurrentWidths(const ModelPlan& plan, Input type) {
    for (const LayerPlan& layer : plan.layers) {
      const RecurrentPlan& own = layer.recurrent;
      if (!own) continue;
      entering = std::max<uint64_t>(entering, entering_width(own));
      channels = std::max<uint64_t>(channels, own.channels());
      inner_bytes = std::max(inner_bytes, input_bytes(own.inner(), type));
      if (own.kind != Recurrence::mamba) continue;
      low_bc = std::max<uint64_t>(low_bc, own.step_rank + 2 * own.state);
      low_bytes = std::max(low_bytes, input_bytes(own.step_rank, type));
      steps = std::max<uint64_t>(steps, own.inner());
    }
  }
};

// Where the state of a layer begins behind the rows that its convolution keeps.
int64_t first_float(const RecurrentPlan& plan) {
  return int64_t{plan.width - 1} * plan.channels();
}

}  // namespace

uint32_t entering_width(const RecurrentPlan& plan) {
  uint32_t width = plan.channels() + plan.inner();
  if (plan.kind != Recurrence::mamba) width += plan.steps();
  if (plan.kind == Recurrence::gated_delta) width += plan.heads;
  return width;
}

uint64_t RecurrentArrays::bytes_for(const ModelPlan& plan, uint64_t rows, Input type) {
  const RecurrentWidths widths(plan, type);
  return rows *
         ((widths.entering + widths.channels + widths.low_bc + widths.steps) * sizeof(float) +
          widths.inner_bytes + widths.low_bytes);
}

Status RecurrentArrays::allocate(const ModelPlan& plan, uint64_t rows, Input type,
                                 DeviceMemory& memory) {
  const RecurrentWidths widths(plan, type);
  const char* const what = "activations of recurrences";
  const std::pair<float**, uint64_t> floats[] = {{&entering, widths.entering},
                                                 {&convolved, widths.channels},
                                                 {&low_bc, widths.low_bc},
                                                 {&steps, widths.steps}};
  for (const auto& [made, width] : floats) {
    TENON_ASSIGN_OR_RETURN(*made, memory.array<float>(rows * width, what));
  }
  TENON_ASSIGN_OR_RETURN(inner, memory.bytes(rows * widths.inner_bytes, what));
  TENON_ASSIGN_OR_RETURN(low_input, memory.bytes(rows * widths.low_bytes, what));
  return {};
}

StatePlanArrays plan_states(const BatchView& batch, GroupId id) {
  StatePlanArrays plan;
  plan.row_sequence.resize(batch.rows);
  plan.to.resize(batch.rows, kNoSlot);
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    StateSequence& made =
        plan.sequences.emplace_back(StateSequence{sequence.first_row, sequence.rows, kNoSlot});
    if (sequence.rows == 0) continue;
    std::fill_n(plan.row_sequence.begin() + sequence.first_row, sequence.rows, i);
    const KvTableView& table = batch.groups[id].tables[i];
    if (table.blocks[0] != kNoBlock) made.from = table.blocks[0];
    for (size_t end = 1; end < table.ends.size(); ++end) {
      const uint32_t rows = table.ends[end] - table.ends[0];
      if (rows <= sequence.rows) plan.to[sequence.first_row + rows - 1] = table.blocks[end];
    }
  }
  return plan;
}

Status CudaStep::load_states() {
  for (GroupId group = 0; group < setup_.shape->group_count; ++group) {
    if (setup_.shape->groups[group].kind != KvKind::recurrent) continue;
    StatePlan& made = state_plans_.emplace_back();
    made.group = group;
    const char* const what = "a step's states";
    TENON_ASSIGN_OR_RETURN(made.sequences, input<StateSequence>(setup_.max_sequences, what));
    TENON_ASSIGN_OR_RETURN(made.row_sequence, input<uint32_t>(setup_.max_rows, what));
    TENON_ASSIGN_OR_RETURN(made.to, input<int32_t>(setup_.max_rows, what));
  }
  return {};
}

uint64_t CudaStep::state_plan_bytes(const StepSetup& setup) {
  const std::span<const KvGroup> groups(setup.shape->groups, setup.shape->group_count);
  const auto count = static_cast<uint64_t>(std::ranges::count_if(
      groups, [](const KvGroup& group) { return group.kind == KvKind::recurrent; }));
  return count * (setup.max_sequences * sizeof(StateSequence) +
                  setup.max_rows * (sizeof(uint32_t) + sizeof(int32_t)));
}

Status CudaStep::send_states(StatePlan& to, const BatchView& batch) {
  const StatePlanArrays plan = plan_states(batch, to.group);
  to.count = static_cast<uint32_t>(plan.sequences.size());
  TENON_RETURN_IF_ERROR(send(to.sequences, plan.sequences));
  TENON_RETURN_IF_ERROR(send(to.row_sequence, plan.row_sequence));
  return send(to.to, plan.to);
}

StateSteps CudaStep::state_steps(uint32_t layer) const {
  const LayerShape& shape = setup_.shape->layers[layer];
  const auto& own = *std::ranges::find(state_plans_, shape.state_group, &StatePlan::group);
  StateSteps steps = {};
  steps.sequences = own.sequences;
  steps.row_sequence = own.row_sequence;
  steps.to = own.to;
  steps.states = kv_.states(shape.state_group) + shape.state_offset / sizeof(float);
  steps.slot_floats =
      static_cast<int64_t>(setup_.groups[shape.state_group].bytes_per_token / sizeof(float));
  steps.rows = rows_;
  steps.count = own.count;
  return steps;
}

void CudaStep::recur_in(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  input_of(static_cast<bool>(plan(layer).attention_norm));
  const StackPart x{w.ssm_in, w.ssm_in_bias}, gate{w.ssm_gate, w.ssm_gate_bias};
  const StackPart step{w.ssm_step, w.ssm_step_bias}, beta{w.ssm_beta, nullptr};
  switch (plan(layer).recurrent.kind) {
    case Recurrence::gated_delta:
      multiply_all(w.ssm_inputs, {x, gate, step, beta}, normed_, recurrent_.entering);
      return;
    case Recurrence::mamba2:
      multiply_all(w.ssm_inputs, {x, gate, step}, normed_, recurrent_.entering);
      return;
    default:
      multiply_all(w.ssm_inputs, {x, gate}, normed_, recurrent_.entering);
  }
}

void CudaStep::convolve(uint32_t layer, const StateSteps& steps) {
  const DeviceLayer& w = weights_.layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  ConvolveCall call = {};
  call.steps = steps;
  call.x = recurrent_.entering;
  call.weights = w.ssm_conv;
  call.bias = w.ssm_conv_bias;
  call.out = recurrent_.convolved;
  call.channels = static_cast<int>(own.channels());
  call.width = static_cast<int>(own.width);
  call.x_stride = static_cast<int>(entering_width(own));
  keep(launch_convolve(driver_.stream(), call), "a convolution");
}

// Mamba makes Δ, B and C of what was convolved.
void CudaStep::scan_channels(uint32_t layer, const StateSteps& steps) {
  const DeviceLayer& w = weights_.layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  const auto take = [&](const float* from, void* to, uint32_t width, int from_stride) {
    keep(launch_take_rows(driver_.stream(), from, nullptr, to, weights_.type(), rows_,
                          static_cast<int>(width), DeviceWeights::input_stride(width), from_stride),
         "an input of steps");
  };
  take(recurrent_.convolved, recurrent_.inner, own.inner(), 0);
  const int stride = multiply_all(w.ssm_low_bc, {{w.ssm_low, nullptr}, {w.ssm_bc, nullptr}},
                                  recurrent_.inner, recurrent_.low_bc);
  take(recurrent_.low_bc, recurrent_.low_input, own.step_rank, stride);
  multiply(w.ssm_dt, nullptr, recurrent_.low_input, rows_, recurrent_.steps);
  ScanChannelsCall call = {};
  call.steps = steps;
  call.c = recurrent_.convolved;
  call.step = recurrent_.steps;
  call.bc = recurrent_.low_bc + own.step_rank;
  call.a = w.ssm_a;
  call.step_bias = w.ssm_dt_bias;
  call.d = w.ssm_d;
  call.y = recurrent_.entering;
  call.first_float = first_float(own);
  call.channels = static_cast<int>(own.inner());
  call.state = static_cast<int>(own.state);
  call.bc_stride = stride;
  call.y_stride = static_cast<int>(entering_width(own));
  keep(launch_scan_channels(driver_.stream(), call), "a scan of channels");
}

void CudaStep::scan_heads(uint32_t layer, const StateSteps& steps) {
  const DeviceLayer& w = weights_.layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  ScanHeadsCall call = {};
  call.steps = steps;
  call.c = recurrent_.convolved;
  call.step = recurrent_.entering + own.channels() + own.inner();
  call.a = w.ssm_a;
  call.step_bias = w.ssm_dt_bias;
  call.d = w.ssm_d;
  call.y = recurrent_.entering;
  call.first_float = first_float(own);
  call.heads = static_cast<int>(own.heads);
  call.dim = static_cast<int>(own.head_dim);
  call.state = static_cast<int>(own.state);
  call.groups = static_cast<int>(own.groups);
  call.step_stride = call.y_stride = static_cast<int>(entering_width(own));
  call.least_step = own.least_step;
  call.most_step = own.most_step;
  keep(launch_scan_heads(driver_.stream(), call), "a scan of heads");
}

void CudaStep::scan_delta(uint32_t layer, const StateSteps& steps) {
  const DeviceLayer& w = weights_.layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  NormShape keys;
  keys.rows = rows_ * 2 * own.groups;
  keys.width = static_cast<int>(own.state);
  keys.x_stride = keys.out_stride = static_cast<int>(own.channels());
  keys.heads = keys.weight_rows = 2 * own.groups;
  keys.eps = 1e-6f / static_cast<float>(own.state);
  keep(launch_norm(driver_.stream(), recurrent_.convolved, w.ssm_key_norm, nullptr,
                   recurrent_.convolved, Input::f32, keys),
       "the norm of keys");
  ScanDeltaCall call = {};
  call.steps = steps;
  call.c = recurrent_.convolved;
  call.step = recurrent_.entering + own.channels() + own.inner();
  call.beta = call.step + own.steps();
  call.a = w.ssm_a;
  call.step_bias = w.ssm_dt_bias;
  call.y = recurrent_.entering;
  call.first_float = first_float(own);
  call.heads = static_cast<int>(own.heads);
  call.dim = static_cast<int>(own.head_dim);
  call.state = static_cast<int>(own.state);
  call.groups = static_cast<int>(own.groups);
  call.decays = static_cast<int>(own.decays);
  call.step_stride = call.y_stride = static_cast<int>(entering_width(own));
  call.strongest_decay = own.strongest_decay;
  keep(launch_scan_delta(driver_.stream(), call), "a scan of delta rules");
}

// inner = norm(silu(gate) · y), the norm of each group's heads together; or silu(gate) · norm(y),
// of each head.
void CudaStep::gate_scanned(uint32_t layer) {
  const RecurrentPlan& own = plan(layer).recurrent;
  const auto width = static_cast<int>(own.inner());
  const auto stride = static_cast<int>(entering_width(own));
  const int inner_stride = DeviceWeights::input_stride(own.inner());
  float* const y = recurrent_.entering;
  const auto gate = [&](void* to, Input type, int to_stride) {
    keep(launch_gate(driver_.stream(), y + own.channels(), y, to, type, rows_, width, stride,
                     to_stride, ActivationKind::silu),
         "the gate of a recurrence");
  };
  const auto norm = [&](void* to, Input type, int to_stride) {
    NormShape shape;
    shape.rows = rows_ * own.norms();
    shape.width = width / static_cast<int>(own.norms());
    shape.x_stride = stride;
    shape.out_stride = to_stride;
    shape.heads = own.norms();
    shape.weight_rows = own.norm_before_gate() ? 1 : own.norms();
    shape.eps = own.gate_norm.eps;
    keep(
        launch_norm(driver_.stream(), y, weights_.layers[layer].ssm_norm, nullptr, to, type, shape),
        "the norm of a recurrence");
  };
  if (own.gate_norm && !own.norm_before_gate()) {
    gate(y, Input::f32, stride);
    return norm(recurrent_.inner, weights_.type(), inner_stride);
  }
  if (own.gate_norm) norm(y, Input::f32, stride);
  gate(recurrent_.inner, weights_.type(), inner_stride);
}

void CudaStep::recur(uint32_t layer) {
  const StateSteps steps = state_steps(layer);
  convolve(layer, steps);
  switch (plan(layer).recurrent.kind) {
    case Recurrence::gated_delta:
      scan_delta(layer, steps);
      break;
    case Recurrence::mamba2:
      scan_heads(layer, steps);
      break;
    default:
      scan_channels(layer, steps);
  }
  gate_scanned(layer);
}

void CudaStep::recur_out(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias, w.ssm_out, w.ssm_out_bias, recurrent_.inner);
}

}  // namespace tenon::cuda
