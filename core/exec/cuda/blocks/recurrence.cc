// The recurrent half of a layer: projections as products, what lies between as kernels of its own.
#include "core/exec/cuda/blocks/recurrence.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {
namespace {

uint64_t input_bytes(uint32_t width, Input type) {
  const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(width));
  return stride * (type == Input::f32 ? sizeof(float) : sizeof(uint16_t));
}

// Numbers of a row of RecurrentArrays::convolved, which may have the stride of what enters.
uint64_t convolved_width(const RecurrentPlan& plan);

// The largest of all layers, of a row.
struct RecurrentWidths {
  uint64_t entering = 0, channels = 0, low_bc = 0, steps = 0;  // numbers
  uint64_t inner_bytes = 0, low_bytes = 0;                     // of inputs

  RecurrentWidths(const ModelPlan& plan, Input type) {
    for (const LayerPlan& layer : plan.layers) {
      const RecurrentPlan& own = layer.recurrent;
      if (!own) continue;
      entering = std::max<uint64_t>(entering, entering_width(own));
      channels = std::max(channels, convolved_width(own));
      inner_bytes = std::max(inner_bytes, input_bytes(own.inner(), type));
      if (own.kind != Recurrence::mamba) continue;
      low_bc = std::max<uint64_t>(low_bc, own.step_rank + 2 * own.state);
      low_bytes = std::max(low_bytes, input_bytes(own.step_rank, type));
      steps = std::max<uint64_t>(steps, own.inner());
    }
  }
};

// Where the state of a layer begins after the rows that its convolution keeps.
int64_t first_float(const RecurrentPlan& plan) {
  return int64_t{plan.width - 1} * plan.channels();
}

// Parameters of all kinds that are here (RecurrenceKind::parameters), and one of Mamba's.
enum : size_t { kConvolution, kConvolutionBias, kA, kStepBias, kD };

// What a scan reads and writes, of a step's rows in one layer.
struct ScanRows {
  void* stream;
  StateSteps steps;
  const RecurrentPlan& plan;
  const DeviceRecurrence& weights;
  const RecurrentArrays& arrays;

  int stride() const { return static_cast<int>(entering_width(plan)); }
  // After x and the gate.
  const float* other_inputs() const { return arrays.entering + plan.channels() + plan.inner(); }
};

int short_conv(const ScanRows& rows) {
  ShortConvCall call = {};
  call.steps = rows.steps;
  call.bcx = rows.arrays.entering;
  call.weights = rows.weights.parameters[kConvolution];
  call.bias = rows.weights.parameters[kConvolutionBias];
  call.out = rows.arrays.convolved;
  call.channels = static_cast<int>(rows.plan.channels());
  call.width = static_cast<int>(rows.plan.width);
  return launch_short_conv(rows.stream, call);
}

int scan_channels(const ScanRows& rows) {
  const RecurrentPlan& plan = rows.plan;
  ScanChannelsCall call = {};
  call.steps = rows.steps;
  call.c = rows.arrays.convolved;
  call.step = rows.arrays.steps;
  call.bc = rows.arrays.low_bc + plan.step_rank;
  call.a = rows.weights.parameters[kA];
  call.step_bias = rows.weights.parameters[kStepBias];
  call.d = rows.weights.parameters[kD];
  call.y = rows.arrays.entering;
  call.first_float = first_float(plan);
  call.channels = static_cast<int>(plan.inner());
  call.state = static_cast<int>(plan.state);
  call.bc_stride = static_cast<int>(plan.step_rank + 2 * plan.state);
  call.y_stride = rows.stride();
  return launch_scan_channels(rows.stream, call);
}

int scan_heads(const ScanRows& rows) {
  const RecurrentPlan& plan = rows.plan;
  ScanHeadsCall call = {};
  call.steps = rows.steps;
  call.c = rows.arrays.convolved;
  call.step = rows.other_inputs();
  call.a = rows.weights.parameters[kA];
  call.step_bias = rows.weights.parameters[kStepBias];
  call.d = rows.weights.parameters[kD];
  call.y = rows.arrays.entering;
  call.first_float = first_float(plan);
  call.heads = static_cast<int>(plan.heads);
  call.dim = static_cast<int>(plan.head_dim);
  call.state = static_cast<int>(plan.state);
  call.groups = static_cast<int>(plan.groups);
  call.step_stride = call.y_stride = rows.stride();
  call.least_step = plan.least_step;
  call.most_step = plan.most_step;
  return launch_scan_heads(rows.stream, call);
}

int scan_delta(const ScanRows& rows) {
  const RecurrentPlan& plan = rows.plan;
  NormShape keys;
  keys.rows = rows.steps.rows * 2 * plan.groups;
  keys.width = static_cast<int>(plan.state);
  keys.x_stride = keys.out_stride = static_cast<int>(plan.channels());
  keys.heads = keys.weight_rows = 2 * plan.groups;
  keys.eps = 1e-6f / static_cast<float>(plan.state);
  float* const convolved = rows.arrays.convolved;
  const int error = launch_norm(rows.stream, convolved, rows.weights.key_norm, nullptr, convolved,
                                Input::f32, keys);
  if (error != 0) return error;
  ScanDeltaCall call = {};
  call.steps = rows.steps;
  call.c = convolved;
  call.step = rows.other_inputs();
  call.beta = call.step + plan.steps();
  call.a = rows.weights.parameters[kA];
  call.step_bias = rows.weights.parameters[kStepBias];
  call.y = rows.arrays.entering;
  call.first_float = first_float(plan);
  call.heads = static_cast<int>(plan.heads);
  call.dim = static_cast<int>(plan.head_dim);
  call.state = static_cast<int>(plan.state);
  call.groups = static_cast<int>(plan.groups);
  call.decays = static_cast<int>(plan.decays);
  call.step_stride = call.y_stride = rows.stride();
  call.strongest_decay = plan.strongest_decay;
  return launch_scan_delta(rows.stream, call);
}

int scan_mlstm(const ScanRows& rows) {
  const RecurrentPlan& plan = rows.plan;
  ScanMlstmCall call = {};
  call.steps = rows.steps;
  call.qkv = rows.arrays.entering;
  call.gates = rows.other_inputs();
  call.y = rows.arrays.convolved;
  call.heads = static_cast<int>(plan.heads);
  call.dim = static_cast<int>(plan.head_dim);
  call.state = static_cast<int>(plan.state);
  call.stride = rows.stride();
  call.cap = plan.gate_cap;
  call.eps = plan.divisor_eps;
  return launch_scan_mlstm(rows.stream, call);
}

// Where a scan takes its rows from and leaves its result.
enum class Way : uint8_t {
  convolved,  // from `convolved`, to `entering` in the place of x
  entering,   // from `entering`, to `convolved`, of which a row has the same stride if it is gated
};

// The kinds that there are kernels for.
struct Scan {
  Recurrence kind;
  int most_state;  // numbers for each element of a state
  Way way;
  int (*launch)(const ScanRows& rows);
};
constexpr Scan kScans[] = {
    {Recurrence::mamba, kMaxChannelState, Way::convolved, scan_channels},
    {Recurrence::mamba2, kMaxHeadState, Way::convolved, scan_heads},
    {Recurrence::gated_delta, kMaxDeltaState, Way::convolved, scan_delta},
    {Recurrence::short_conv, 0, Way::entering, short_conv},
    {Recurrence::mlstm, kMaxMlstmState, Way::entering, scan_mlstm},
};

const Scan* find_scan(Recurrence kind) {
  const auto* scan = std::ranges::find(kScans, kind, &Scan::kind);
  return scan == std::end(kScans) ? nullptr : scan;
}

uint64_t convolved_width(const RecurrentPlan& plan) {
  const bool gated = recurrence_kind(plan.kind).gated;
  const Scan* scan = find_scan(plan.kind);
  const bool strided = gated && scan != nullptr && scan->way == Way::entering;
  return strided ? entering_width(plan) : plan.channels();
}

}  // namespace

std::string refused_recurrence(const RecurrentPlan& plan) {
  const Scan* scan = find_scan(plan.kind);
  if (scan == nullptr) return "a recurrence of the kind " + std::string(recurrence_name(plan.kind));
  if (plan.kind == Recurrence::gated_delta &&
      (plan.inputs_apart || plan.gate_rank > 0 || plan.sigmoid_gate || plan.beta_scale != 1.0f)) {
    return "a delta rule whose q, k and v come apart";
  }
  if (plan.scales != RecurrentScales() || (plan.norm_first && plan.kind == Recurrence::mamba2)) {
    return "a recurrence with factors, or a norm before its gate";
  }
  if (plan.low_norm) return "a recurrence with norms of its Δ, B and C";
  if (plan.state <= static_cast<uint32_t>(scan->most_state)) return {};
  return "a recurrence that keeps " + std::to_string(plan.state) + " numbers for each element";
}

uint32_t entering_width(const RecurrentPlan& plan) {
  const RecurrenceKind& kind = recurrence_kind(plan.kind);
  const auto widths = kind.input_widths(plan);
  uint32_t width = kind.gated ? plan.inner() : 0;
  for (size_t i = 0; i < kind.inputs.size(); ++i) width += widths[i];
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
  input_of(static_cast<bool>(plan(layer).attention_norm));
  multiply_all(weights_.layers[layer].recurrence.inputs, normed_, recurrent_.entering);
}

void CudaStep::convolve(uint32_t layer, const StateSteps& steps) {
  const DeviceRecurrence& w = weights_.layers[layer].recurrence;
  const RecurrentPlan& own = plan(layer).recurrent;
  ConvolveCall call = {};
  call.steps = steps;
  call.x = recurrent_.entering;
  call.weights = w.parameters[kConvolution];
  call.bias = w.parameters[kConvolutionBias];
  call.out = recurrent_.convolved;
  call.channels = static_cast<int>(own.channels());
  call.width = static_cast<int>(own.width);
  call.x_stride = static_cast<int>(entering_width(own));
  keep(launch_convolve(driver_.stream(), call), "a convolution");
}

// Mamba makes Δ, B and C of what was convolved.
void CudaStep::make_steps(uint32_t layer) {
  const DeviceRecurrence& w = weights_.layers[layer].recurrence;
  const RecurrentPlan& own = plan(layer).recurrent;
  const auto take = [&](const float* from, void* to, uint32_t width, int from_stride) {
    keep(launch_take_rows(driver_.stream(), from, nullptr, to, weights_.type(), rows_,
                          static_cast<int>(width), DeviceWeights::input_stride(width), from_stride),
         "an input of steps");
  };
  take(recurrent_.convolved, recurrent_.inner, own.inner(), 0);
  const int stride = multiply_all(w.low_bc, recurrent_.inner, recurrent_.low_bc);
  take(recurrent_.low_bc, recurrent_.low_input, own.step_rank, stride);
  multiply(w.dt, nullptr, recurrent_.low_input, rows_, recurrent_.steps);
}

// inner = norm(silu(gate) · y), the norm of each group's heads together; or silu(gate) · norm(y),
// of each head; or σ in place of silu.
void CudaStep::gate_scanned(uint32_t layer, float* y) {
  const RecurrentPlan& own = plan(layer).recurrent;
  const auto width = static_cast<int>(own.inner());
  const auto stride = static_cast<int>(entering_width(own));
  const int inner_stride = DeviceWeights::input_stride(own.inner());
  const float* const gates = recurrent_.entering + own.channels();
  const auto gate = [&](void* to, Input type, int to_stride) {
    if (own.sigmoid_gate) {
      keep(launch_open(driver_.stream(), gates, y, Input::f32, rows_, width, stride, stride),
           "the gate of a recurrence");
      keep(
          launch_take_rows(driver_.stream(), y, nullptr, to, type, rows_, width, to_stride, stride),
          "what a recurrence made");
      return;
    }
    keep(launch_gate(driver_.stream(), gates, y, to, type, rows_, width, stride, to_stride,
                     ActivationKind::silu),
         "the gate of a recurrence");
  };
  const auto norm = [&](void* to, Input type, int to_stride) {
    const float* const weights = weights_.layers[layer].recurrence.norm;
    NormShape shape;
    shape.rows = rows_ * own.norms();
    shape.width = width / static_cast<int>(own.norms());
    shape.x_stride = stride;
    shape.out_stride = to_stride;
    shape.heads = own.norms();
    shape.weight_rows = own.kind == Recurrence::gated_delta ? 1 : own.norms();
    shape.eps = own.gate_norm.eps;
    shape.centered = own.gate_norm.kind == NormKind::layer;
    keep(launch_norm(driver_.stream(), y, weights, nullptr, to, type, shape),
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
  const RecurrentPlan& own = plan(layer).recurrent;
  const StateSteps steps = state_steps(layer);
  const Scan& scan = *find_scan(own.kind);
  if (scan.way == Way::convolved) convolve(layer, steps);
  if (own.kind == Recurrence::mamba) make_steps(layer);
  keep(scan.launch({driver_.stream(), steps, own, weights_.layers[layer].recurrence, recurrent_}),
       "the scan of a recurrence");
  float* const y = scan.way == Way::convolved ? recurrent_.entering : recurrent_.convolved;
  if (recurrence_kind(own.kind).gated) return gate_scanned(layer, y);
  const uint32_t width = own.inner();
  keep(launch_take_rows(driver_.stream(), y, nullptr, recurrent_.inner, weights_.type(), rows_,
                        static_cast<int>(width), DeviceWeights::input_stride(width)),
       "what a recurrence made");
}

void CudaStep::recur_out(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  add_to_hidden(plan(layer), plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias, w.recurrence.out.matrix, w.recurrence.out.bias,
                recurrent_.inner);
}

}  // namespace tenon::cuda
