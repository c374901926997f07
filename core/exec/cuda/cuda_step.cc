#include "core/exec/cuda/cuda_step.h"

#include <algorithm>
#include <string>

#include "core/exec/rotary.h"

namespace tenon::cuda {

struct CudaStep::Widths {
  uint32_t q = 0, kv = 0, mlp = 0, heads = 0;
  uint32_t splits = 0;

  explicit Widths(const StepSetup& setup) : splits(attention_splits(setup.shape->context_tokens)) {
    for (const LayerPlan& layer : setup.model->plan.layers) {
      q = std::max(q, layer.attention.q_width());
      kv = std::max(kv, layer.attention.kv_width());
      mlp = std::max(mlp, layer.mlp.width);
      heads = std::max(heads, layer.attention.heads);
    }
  }
};

uint64_t CudaStep::bytes_for(const StepSetup& setup) {
  const Widths widest(setup);
  const ModelPlan& plan = setup.model->plan;
  const uint64_t inputs = 4ull * (plan.hidden + widest.q + widest.mlp + 24);
  const uint64_t numbers = 3ull * plan.hidden + widest.q + 2ull * widest.kv + 2ull * widest.mlp +
                           plan.vocabulary +
                           uint64_t{widest.splits} * (widest.q + 2ull * widest.heads);
  return setup.max_rows * (inputs + numbers * sizeof(float));
}

Status CudaStep::load(const StepSetup& setup) {
  setup_ = setup;
  const Widths widest(setup);
  const ModelPlan& plan = setup.model->plan;
  const uint64_t rows = setup.max_rows;
  const std::pair<float**, uint64_t> floats[] = {{&hidden_, plan.hidden},
                                                 {&update_, plan.hidden},
                                                 {&wanted_, plan.hidden},
                                                 {&q_, widest.q},
                                                 {&k_, widest.kv},
                                                 {&v_, widest.kv},
                                                 {&gate_, widest.mlp},
                                                 {&up_, widest.mlp},
                                                 {&logits_, plan.vocabulary},
                                                 {&partial_, uint64_t{widest.splits} * widest.q},
                                                 {&sums_, 2ull * widest.splits * widest.heads}};
  for (const auto& [made, width] : floats) {
    TENON_ASSIGN_OR_RETURN(*made, memory_.array<float>(rows * width, "activations"));
  }
  const std::pair<void**, uint32_t> inputs[] = {
      {&normed_, plan.hidden}, {&attended_, widest.q}, {&inner_, widest.mlp}};
  const uint64_t element = weights_.type() == Input::f32 ? 4 : 2;
  for (const auto& [made, width] : inputs) {
    const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(width));
    TENON_ASSIGN_OR_RETURN(*made, memory_.bytes(rows * stride * element, "activations"));
  }
  TENON_ASSIGN_OR_RETURN(tokens_, input<int32_t>(rows, "a step's arrays"));
  for (uint32_t** made : {&positions_, &logits_rows_, &hidden_rows_}) {
    TENON_ASSIGN_OR_RETURN(*made, input<uint32_t>(rows, "a step's arrays"));
  }
  angles_.resize(plan.ropes.size());
  for (const RopePlan& rope : plan.ropes) {
    frequencies_.push_back(rope_frequencies(rope, setup.shape->context_tokens));
    TENON_ASSIGN_OR_RETURN(float* const at, input<float>(rows * rope.dim, "angles"));
    device_angles_.push_back(at);
  }
  TENON_RETURN_IF_ERROR(load_plans());
  for (StepTurn& turn : turns_) TENON_RETURN_IF_ERROR(turn.load(input_bytes_));
  return {};
}

Status CudaStep::load_plans() {
  const uint64_t rows = setup_.max_rows;
  const uint64_t sequences = setup_.max_sequences;
  for (LayerId layer = 0; layer < setup_.shape->layer_count; ++layer) {
    const GroupId group = setup_.shape->layers[layer].group;
    const uint32_t heads = plan(layer).attention.heads;
    const auto same = [&](const GroupPlan& p) { return p.group == group && p.heads == heads; };
    const auto found = std::ranges::find_if(plans_, same);
    plan_of_layer_.push_back(static_cast<size_t>(found - plans_.begin()));
    if (found != plans_.end()) continue;
    GroupPlan& made = plans_.emplace_back();
    made.group = group;
    made.heads = heads;
    made.table_entries =
        sequences * (setup_.shape->context_tokens / setup_.groups[group].block_tokens + 2);
    const uint64_t tiles = rows * heads / kTileItems + 2 * sequences + 1;
    const char* const what = "a step's plan";
    TENON_ASSIGN_OR_RETURN(made.device.sequences, input<AttentionSequence>(sequences, what));
    TENON_ASSIGN_OR_RETURN(made.device.tiles, input<AttentionTile>(tiles, what));
    TENON_ASSIGN_OR_RETURN(made.device.tables, input<int32_t>(made.table_entries, what));
    TENON_ASSIGN_OR_RETURN(made.device.slots, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.row_sequence, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.blocks, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.offsets, input<uint32_t>(rows, what));
  }
  return {};
}

Status CudaStep::send_plan(GroupPlan& to, const BatchView& batch) {
  const uint32_t kv_heads = setup_.shape->groups[to.group].kv_heads;
  to.host =
      plan_attention(batch, to.group, setup_.groups[to.group].block_tokens, to.heads, kv_heads);
  if (to.host.tables.size() > to.table_entries) {
    return internal("block tables have " + std::to_string(to.host.tables.size()) +
                    " entries together; expected at most " + std::to_string(to.table_entries));
  }
  const auto at = [](const auto* array) {
    return const_cast<std::remove_const_t<std::remove_pointer_t<decltype(array)>>*>(array);
  };
  TENON_RETURN_IF_ERROR(send(at(to.device.sequences), to.host.sequences));
  TENON_RETURN_IF_ERROR(send(at(to.device.tiles), to.host.tiles));
  TENON_RETURN_IF_ERROR(send(at(to.device.tables), to.host.tables));
  TENON_RETURN_IF_ERROR(send(at(to.device.slots), to.host.slots));
  TENON_RETURN_IF_ERROR(send(at(to.device.row_sequence), to.host.row_sequence));
  TENON_RETURN_IF_ERROR(send(to.blocks, to.host.blocks));
  return send(to.offsets, to.host.offsets);
}

Status CudaStep::send_step(const BatchView& batch) {
  TENON_RETURN_IF_ERROR(turn().send(positions_, batch.positions));
  TENON_RETURN_IF_ERROR(turn().send(logits_rows_, batch.logits_rows));
  TENON_RETURN_IF_ERROR(turn().send(hidden_rows_, batch.hidden_rows));
  for (size_t i = 0; i < angles_.size(); ++i) {
    const RopePlan& rope = setup_.model->plan.ropes[i];
    const size_t half = rope.dim / 2;
    angles_[i].resize(batch.rows * 2 * half);
    for (uint32_t row = 0; row < batch.rows; ++row) {
      float* const own = &angles_[i][row * 2 * half];
      rotary_angles(batch.positions[row], frequencies_[i],
                    static_cast<float>(rope.scaling.attention_factor), own, own + half);
    }
    TENON_RETURN_IF_ERROR(send(device_angles_[i], angles_[i]));
  }
  for (GroupPlan& each : plans_) TENON_RETURN_IF_ERROR(send_plan(each, batch));
  return {};
}

void CudaStep::stage(const BatchView& batch) {
  const ModelPlan& plan = setup_.model->plan;
  const auto send_all = [&]() -> Status {
    TENON_RETURN_IF_ERROR(turn().begin(batch, plan.hidden, plan.vocabulary));
    if (batch.rows > 0) TENON_RETURN_IF_ERROR(send_step(batch));
    return turn().mark();
  };
  staging_ = send_all();
  staged_ = batch.step_id;
}

Status CudaStep::enqueue(const BatchView& batch) {
  if (turn().in_flight) return internal("a third step was launched; two may be in flight");
  if (staged_ != batch.step_id) stage(batch);
  staged_.reset();
  TENON_RETURN_IF_ERROR(std::move(staging_));
  if (batch.rows > 0) TENON_RETURN_IF_ERROR(run(batch));
  TENON_RETURN_IF_ERROR(turn().mark());
  turn().in_flight = true;
  next_ = 1 - next_;
  return {};
}

Status CudaStep::run(const BatchView& batch) {
  rows_ = batch.rows;
  logits_count_ = static_cast<uint32_t>(batch.logits_rows.size());
  hidden_count_ = static_cast<uint32_t>(batch.hidden_rows.size());
  failed_ = {};
  TENON_RETURN_IF_ERROR(turn().send(tokens_, batch.tokens));
  run_decoder(setup_.model->plan, *this);
  TENON_RETURN_IF_ERROR(std::move(failed_));
  return fetch_logits();
}

Status CudaStep::fetch_logits() {
  if (logits_count_ == 0) return {};
  return driver_.fetch(turn().logits(), logits_,
                       uint64_t{logits_count_} * setup_.model->plan.vocabulary * sizeof(float));
}

Result<StepOutput> CudaStep::collect(uint64_t step_id) {
  for (StepTurn& turn : turns_) {
    if (!turn.in_flight || turn.output().step_id != step_id) continue;
    turn.in_flight = false;
    TENON_RETURN_IF_ERROR(turn.wait());
    return turn.output();
  }
  return internal("step " + std::to_string(step_id) + " was collected and is not in flight");
}

void CudaStep::keep(Status status) {
  if (failed_.ok() && !status.ok()) failed_ = std::move(status);
}

void CudaStep::keep(int error, std::string_view operation) {
  if (error != 0) keep(driver_.launched(error, operation));
}

}  // namespace tenon::cuda
