#include "core/exec/cuda/cuda_step.h"

#include <algorithm>
#include <string>

#include "core/exec/rotary.h"

namespace tenon::cuda {

struct CudaStep::Widths {
  uint32_t q = 0, kv = 0, mlp = 0, heads = 0, attended = 0;
  uint32_t splits = 0;

  explicit Widths(const StepSetup& setup) : splits(attention_splits(setup.shape->context_tokens)) {
    for (const LayerPlan& layer : setup.model->plan.layers) {
      q = std::max(q, layer.attention.q_width());
      kv = std::max(kv, layer.attention.kv_width());
      mlp = std::max({mlp, layer.mlp.width, layer.experts.shared_width});
      heads = std::max(heads, layer.attention.heads);
      // Latent attention's heads are inputs of products one by one, then together.
      const auto rank = static_cast<uint32_t>(DeviceWeights::input_stride(layer.latent.kv_rank));
      attended = std::max({attended, layer.attended_width(), layer.attention.heads * rank});
    }
  }
};

uint64_t CudaStep::bytes_for(const StepSetup& setup) {
  const Widths widest(setup);
  const ModelPlan& plan = setup.model->plan;
  const uint64_t inputs = 4ull * (plan.hidden + widest.attended + widest.mlp + 24);
  const uint64_t numbers = 3ull * plan.hidden + widest.q + 2ull * widest.kv + 2ull * widest.mlp +
                           plan.vocabulary +
                           uint64_t{widest.splits} * (widest.q + 2ull * widest.heads);
  const Input type = DeviceWeights::type_for(*setup.model);
  return setup.max_rows * (inputs + numbers * sizeof(float)) +
         ExpertArrays::bytes_for(plan, setup.max_rows, type) +
         LatentArrays::bytes_for(plan, setup.max_rows, type);
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
      {&normed_, plan.hidden}, {&attended_, widest.attended}, {&inner_, widest.mlp}};
  const uint64_t element = weights_.type() == Input::f32 ? 4 : 2;
  for (const auto& [made, width] : inputs) {
    const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(width));
    TENON_ASSIGN_OR_RETURN(*made, memory_.bytes(rows * stride * element, "activations"));
  }
  TENON_RETURN_IF_ERROR(experts_.allocate(plan, rows, weights_.type(), memory_));
  TENON_RETURN_IF_ERROR(latent_.allocate(plan, rows, weights_.type(), memory_));
  TENON_ASSIGN_OR_RETURN(tokens_, memory_.array<int32_t>(rows, "a step's arrays"));
  for (uint32_t** made : {&positions_, &logits_rows_, &hidden_rows_}) {
    TENON_ASSIGN_OR_RETURN(*made, memory_.array<uint32_t>(rows, "a step's arrays"));
  }
  angles_.resize(plan.ropes.size());
  for (const RopePlan& rope : plan.ropes) {
    frequencies_.push_back(rope_frequencies(rope, setup.shape->context_tokens));
    TENON_ASSIGN_OR_RETURN(float* const at, memory_.array<float>(rows * rope.dim, "angles"));
    device_angles_.push_back(at);
  }
  return load_plans();
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
    TENON_ASSIGN_OR_RETURN(made.device.sequences,
                           memory_.array<AttentionSequence>(sequences, what));
    TENON_ASSIGN_OR_RETURN(made.device.tiles, memory_.array<AttentionTile>(tiles, what));
    TENON_ASSIGN_OR_RETURN(made.device.tables, memory_.array<int32_t>(made.table_entries, what));
    TENON_ASSIGN_OR_RETURN(made.device.slots, memory_.array<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.row_sequence, memory_.array<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.blocks, memory_.array<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.offsets, memory_.array<uint32_t>(rows, what));
  }
  return {};
}

Status CudaStep::send_plan(GroupPlan& to, const BatchView& batch) {
  to.host = plan_attention(batch, to.group, setup_.shape->groups[to.group],
                           setup_.groups[to.group].block_tokens, to.heads);
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
  const auto bytes = [](size_t count) { return count * sizeof(uint32_t); };
  TENON_RETURN_IF_ERROR(driver_.send(tokens_, batch.tokens.data(), bytes(rows_)));
  TENON_RETURN_IF_ERROR(driver_.send(positions_, batch.positions.data(), bytes(rows_)));
  TENON_RETURN_IF_ERROR(
      driver_.send(logits_rows_, batch.logits_rows.data(), bytes(batch.logits_rows.size())));
  TENON_RETURN_IF_ERROR(
      driver_.send(hidden_rows_, batch.hidden_rows.data(), bytes(batch.hidden_rows.size())));
  for (size_t i = 0; i < angles_.size(); ++i) {
    const RopePlan& rope = setup_.model->plan.ropes[i];
    const size_t half = rope.dim / 2;
    angles_[i].resize(rows_ * 2 * half);
    for (uint32_t row = 0; row < rows_; ++row) {
      float* const own = &angles_[i][row * 2 * half];
      rotary_angles(batch.positions[row], frequencies_[i],
                    static_cast<float>(rope.scaling.attention_factor), own, own + half);
    }
    TENON_RETURN_IF_ERROR(send(device_angles_[i], angles_[i]));
  }
  for (GroupPlan& each : plans_) TENON_RETURN_IF_ERROR(send_plan(each, batch));
  return {};
}

Status CudaStep::enqueue(const BatchView& batch) {
  batch_ = &batch;
  rows_ = batch.rows;
  failed_ = {};
  kept_.begin(batch, setup_.model->plan.hidden);
  host_logits_.resize(batch.logits_rows.size() * size_t{setup_.model->plan.vocabulary});
  if (rows_ == 0) return {};
  TENON_RETURN_IF_ERROR(send_step(batch));
  run_decoder(setup_.model->plan, *this);
  return std::move(failed_);
}

void CudaStep::keep(Status status) {
  if (failed_.ok() && !status.ok()) failed_ = std::move(status);
}

void CudaStep::keep(int error, std::string_view operation) {
  if (error != 0) keep(driver_.launched(error, operation));
}

}  // namespace tenon::cuda
