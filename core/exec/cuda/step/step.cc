#include "core/exec/cuda/step/step.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/exec/rotary.h"

namespace tenon::cuda {

uint32_t StepSetup::most_padded() const {
  return std::min({max_rows, max_sequences, kMostPaddedRows});
}

namespace {

// Bounds the results of ranges that are computed beside each other: with more of them, rows are
// walked. With 32 heads of 128 these are those of a million entries.
constexpr uint64_t kRangeBytes = 256 << 20;

}  // namespace

struct CudaStep::Widths {
  uint32_t qkv = 0, gate_up = 0, mlp = 0, heads = 0, attended = 0;
  uint64_t range_values = 0;  // of attention's results of a range, for all heads
  uint64_t ranges = 0;        // whose results there is room for

  explicit Widths(const StepSetup& setup) {
    for (size_t i = 0; i < setup.model->plan.layers.size(); ++i) {
      const LayerPlan& layer = setup.model->plan.layers[i];
      if (setup.cut != nullptr && setup.cut->by_heads(static_cast<uint32_t>(i))) {
        attended = std::max(attended, setup.cut->layers[i].attended.back());
      }
      qkv = std::max(qkv, (layer.attention.output_gate ? 2 : 1) * layer.attention.q_width() +
                              2 * layer.attention.kv_width());
      mlp = std::max({mlp, layer.mlp.width, layer.experts.shared_width});
      gate_up = std::max(
          {gate_up, layer.mlp.width * (layer.mlp.gated ? 2 : 1), 2 * layer.experts.shared_width});
      heads = std::max(heads, layer.attention.heads);
      const int head_dim = static_cast<int>(layer.attention.head_dim);
      range_values = std::max(range_values,
                              uint64_t{layer.attention.heads} * attention_value_stride(head_dim));
      // Latent attention's heads are inputs of products one by one, then together.
      const auto rank = static_cast<uint32_t>(DeviceWeights::input_stride(layer.latent.kv_rank));
      attended = std::max({attended, layer.attended_width(), layer.attention.heads * rank});
    }
    const uint64_t all = uint64_t{setup.max_rows} * attention_splits(setup.shape->context_tokens);
    if (heads == 0) return;
    ranges = std::min(all, std::max<uint64_t>(kRangeBytes / (range_floats() * sizeof(float)), 1));
  }
  uint64_t range_floats() const { return range_values + 2 * heads; }
};

namespace {

// Of a row: tokens, positions, rows of logits and of hidden states.
constexpr uint64_t kRowArrays = 4 * sizeof(uint32_t);
// Of a group's plan: slots, the sequence, the row that it follows, the block and the place in it,
// its ranges, and a number in the list of those that have some.
constexpr uint64_t kPlanRowArrays = 7 * sizeof(uint32_t);

// The plans that a model's layers need: a group, and a number of query heads.
std::vector<std::pair<GroupId, uint32_t>> plan_kinds(const StepSetup& setup) {
  std::vector<std::pair<GroupId, uint32_t>> kinds;
  for (LayerId layer = 0; layer < setup.shape->layer_count; ++layer) {
    if (setup.shape->layers[layer].group == kNoGroup) continue;
    const std::pair kind(setup.shape->layers[layer].group,
                         setup.model->plan.layers[layer].attention.heads);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

struct PlanSizes {
  uint64_t tiles;
  uint64_t table_entries;

  PlanSizes(const StepSetup& setup, GroupId group, uint32_t heads)
      : tiles(uint64_t{setup.max_rows} * heads / kTileItems + 2ull * setup.max_sequences + 1),
        table_entries(uint64_t{setup.max_sequences} *
                      (setup.shape->context_tokens / setup.groups[group].block_tokens + 2)) {}
};

}  // namespace

uint64_t CudaStep::bytes_for(const StepSetup& setup) {
  const Widths widest(setup);
  const ModelPlan& plan = setup.model->plan;
  const Input type = DeviceWeights::type_for(*setup.model, setup.head);
  uint64_t inputs = 0;
  for (const uint32_t width : {plan.hidden, widest.attended, widest.mlp, setup.joined()}) {
    inputs += static_cast<uint64_t>(DeviceWeights::input_stride(width)) *
              (type == Input::f32 ? sizeof(float) : sizeof(uint16_t));
  }
  const uint64_t numbers = 3ull * plan.hidden + widest.qkv + widest.gate_up + plan.vocabulary +
                           setup.entering() + (setup.keeps_embedded() ? plan.hidden : 0);
  uint64_t bytes = ExpertArrays::bytes_for(plan, setup.max_rows, type) +
                   LatentArrays::bytes_for(plan, setup.max_rows, type) +
                   RecurrentArrays::bytes_for(plan, setup.max_rows, type) +
                   SharedArrays::bytes_for(plan, setup.max_rows, type) + state_plan_bytes(setup);
  bytes += DrawArrays::bytes_for(setup.max_rows, plan.vocabulary);
  bytes += widest.ranges * widest.range_floats() * sizeof(float);
  bytes += setup.max_rows * (inputs + numbers * sizeof(float) + kRowArrays);
  if (setup.cut != nullptr) {
    bytes += RankGather::bytes_for(setup.cut->ranks, gather_bytes(setup));
  }
  for (const RopePlan& rope : plan.ropes) bytes += setup.max_rows * rope.dim * sizeof(float);
  for (const auto& [group, heads] : plan_kinds(setup)) {
    const PlanSizes sizes(setup, group, heads);
    bytes += setup.max_sequences * sizeof(AttentionSequence) + sizes.tiles * sizeof(AttentionTile) +
             sizes.table_entries * sizeof(int32_t) + setup.max_rows * kPlanRowArrays;
  }
  return bytes;
}

Status CudaStep::load(const StepSetup& setup) {
  setup_ = setup;
  graphs_.limit(setup.graph_bytes);
  if (setup.cublaslt != nullptr) {
    TENON_RETURN_IF_ERROR(guest_.emplace(driver_, *setup.cublaslt).load());
  }
  const Widths widest(setup);
  const ModelPlan& plan = setup.model->plan;
  const uint64_t rows = setup.max_rows;
  const std::pair<float**, uint64_t> floats[] = {
      {&hidden_, plan.hidden}, {&update_, plan.hidden},     {&wanted_, plan.hidden},
      {&qkv_, widest.qkv},     {&gate_up_, widest.gate_up}, {&logits_, plan.vocabulary}};
  for (const auto& [made, width] : floats) {
    TENON_ASSIGN_OR_RETURN(*made, memory_.array<float>(rows * width, "activations"));
  }
  ways_.most_ranges = widest.ranges;
  TENON_ASSIGN_OR_RETURN(
      partial_, memory_.array<float>(widest.ranges * widest.range_values, "ranges of attention"));
  TENON_ASSIGN_OR_RETURN(
      sums_, memory_.array<float>(2 * widest.ranges * widest.heads, "ranges of attention"));
  const std::pair<void**, uint32_t> inputs[] = {
      {&normed_, plan.hidden}, {&attended_, widest.attended}, {&inner_, widest.mlp}};
  const uint64_t element = weights_.type() == Input::f32 ? 4 : 2;
  for (const auto& [made, width] : inputs) {
    const auto stride = static_cast<uint64_t>(DeviceWeights::input_stride(width));
    TENON_ASSIGN_OR_RETURN(*made, memory_.bytes(rows * stride * element, "activations"));
  }
  if (setup.cut != nullptr) {
    TENON_RETURN_IF_ERROR(gather_.allocate(setup.cut->ranks, gather_bytes(setup), memory_));
  }
  TENON_RETURN_IF_ERROR(experts_.allocate(plan, rows, weights_.type(), memory_));
  TENON_RETURN_IF_ERROR(latent_.allocate(plan, rows, weights_.type(), memory_));
  TENON_RETURN_IF_ERROR(recurrent_.allocate(plan, rows, weights_.type(), memory_));
  TENON_RETURN_IF_ERROR(shared_.allocate(plan, rows, weights_.type(), memory_));
  TENON_ASSIGN_OR_RETURN(draw_arrays_.rows, input<DrawRow>(rows, "a step's draws"));
  TENON_ASSIGN_OR_RETURN(draw_arrays_.tokens, memory_.array<int32_t>(rows, "a step's draws"));
  const uint64_t weights = rows * draw_blocks(plan.vocabulary);
  TENON_ASSIGN_OR_RETURN(draw_arrays_.weights, memory_.array<double>(weights, "a step's draws"));
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
  TENON_RETURN_IF_ERROR(load_head());
  TENON_RETURN_IF_ERROR(load_plans());
  TENON_RETURN_IF_ERROR(load_states());
  for (StepTurn& turn : turns_) TENON_RETURN_IF_ERROR(turn.load(input_bytes_));
  return {};
}

Status CudaStep::load_plans() {
  const uint64_t rows = setup_.max_rows;
  const auto kinds = plan_kinds(setup_);
  for (const auto& [group, heads] : kinds) {
    const PlanSizes sizes(setup_, group, heads);
    GroupPlan& made = plans_.emplace_back();
    made.group = group;
    made.heads = heads;
    made.table_entries = sizes.table_entries;
    const char* const what = "a step's plan";
    TENON_ASSIGN_OR_RETURN(made.device.sequences,
                           input<AttentionSequence>(setup_.max_sequences, what));
    TENON_ASSIGN_OR_RETURN(made.device.tiles, input<AttentionTile>(sizes.tiles, what));
    TENON_ASSIGN_OR_RETURN(made.device.tables, input<int32_t>(made.table_entries, what));
    TENON_ASSIGN_OR_RETURN(made.device.slots, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.row_sequence, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.parents, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.first_ranges, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.device.split_rows, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.blocks, input<uint32_t>(rows, what));
    TENON_ASSIGN_OR_RETURN(made.offsets, input<uint32_t>(rows, what));
  }
  for (LayerId layer = 0; layer < setup_.shape->layer_count; ++layer) {
    const std::pair kind(setup_.shape->layers[layer].group, plan(layer).attention.heads);
    plan_of_layer_.push_back(static_cast<size_t>(std::ranges::find(kinds, kind) - kinds.begin()));
  }
  return {};
}

Status CudaStep::send_plan(GroupPlan& to, const BatchView& batch) {
  to.host = plan_attention(batch, to.group, setup_.shape->groups[to.group],
                           setup_.groups[to.group].block_tokens, to.heads, ways_);
  // More ranges than any sequence has are empty, and fewer numbers are fewer graphs.
  if (padded_) {
    to.host.splits =
        std::min(std::bit_ceil(to.host.splits), attention_splits(setup_.shape->context_tokens));
  }
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
  TENON_RETURN_IF_ERROR(send(at(to.device.parents), to.host.parents));
  TENON_RETURN_IF_ERROR(send(at(to.device.first_ranges), to.host.first_ranges));
  TENON_RETURN_IF_ERROR(send(at(to.device.split_rows), to.host.split_rows));
  TENON_RETURN_IF_ERROR(send(to.blocks, to.host.blocks));
  return send(to.offsets, to.host.offsets);
}

Status CudaStep::send_step(const BatchView& batch) {
  TENON_RETURN_IF_ERROR(turn().send(positions_, batch.positions));
  TENON_RETURN_IF_ERROR(turn().send(logits_rows_, batch.logits_rows));
  TENON_RETURN_IF_ERROR(turn().send(hidden_rows_, batch.hidden_rows));
  if (setup_.head != nullptr) TENON_RETURN_IF_ERROR(send_inputs(batch));
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
  for (StatePlan& each : state_plans_) TENON_RETURN_IF_ERROR(send_states(each, batch));
  return {};
}

void CudaStep::stage(const BatchView& batch) {
  const ModelPlan& plan = setup_.model->plan;
  const uint32_t most = setup_.most_padded();
  // All ranks have the same rows, whether this one captures them or not.
  const bool pads = setup_.cut != nullptr ? setup_.graph_bytes > 0 : graphs_.on();
  padded_ = pads && PaddedBatch::fits(batch, most);
  const BatchView& shown =
      padded_ ? padding_.pad(batch, setup_.groups, padded_size(batch.rows, most)) : batch;
  rows_ = shown.rows;
  logits_count_ = static_cast<uint32_t>(shown.logits_rows.size());
  hidden_count_ = static_cast<uint32_t>(shown.hidden_rows.size());
  const auto send_all = [&]() -> Status {
    TENON_RETURN_IF_ERROR(turn().begin(batch, plan.hidden, setup_.logits_width()));
    if (rows_ > 0) TENON_RETURN_IF_ERROR(send_step(shown));
    return turn().mark();
  };
  staging_ = send_all();
  staged_ = batch.step_id;
}

Status CudaStep::enqueue(const BatchView& batch) {
  if (turn().in_flight) return internal("a third step was launched; two may be in flight");
  StepTurn& before = turns_[1 - next_];
  if (before.in_flight && before.drawn.any()) TENON_RETURN_IF_ERROR(settle(before));
  if (staged_ != batch.step_id) stage(batch);
  staged_.reset();
  TENON_RETURN_IF_ERROR(std::move(staging_));
  const auto logits_rows = static_cast<uint32_t>(batch.logits_rows.size());
  TENON_RETURN_IF_ERROR(turn().drawn.begin(std::exchange(draws_, {}), logits_rows));
  if (batch.rows > 0) TENON_RETURN_IF_ERROR(run(batch));
  TENON_RETURN_IF_ERROR(turn().mark());
  turn().in_flight = true;
  next_ = 1 - next_;
  return {};
}

Status CudaStep::run(const BatchView& batch) {
  padded_tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  padded_tokens_.resize(rows_, 0);
  TENON_RETURN_IF_ERROR(send(tokens_, padded_tokens_));
  TENON_RETURN_IF_ERROR(run_layers());
  return fetch_results();
}

Status CudaStep::fetch_results() {
  TENON_RETURN_IF_ERROR(launch_draws());
  const uint64_t vocabulary = turn().output().vocabulary;
  return turn().drawn.for_others([&](uint32_t first, uint32_t end) {
    return driver_.fetch(turn().logits() + first * vocabulary, logits_ + first * vocabulary,
                         (end - first) * vocabulary * sizeof(float));
  });
}

Status CudaStep::launch_draws() {
  const DrawnRows& drawn = turn().drawn;
  if (!drawn.any()) return {};
  TENON_RETURN_IF_ERROR(send(draw_arrays_.rows, drawn.draws()));
  DrawCall call = {};
  call.logits = logits_;
  call.draws = draw_arrays_.rows;
  call.tokens = draw_arrays_.tokens;
  call.weights = draw_arrays_.weights;
  call.rows = static_cast<uint32_t>(drawn.draws().size());
  call.vocabulary = setup_.model->plan.vocabulary;
  const int error = launch_draw(driver_.stream(), call);
  if (error != 0) return driver_.launched(error, "drawing tokens");
  return driver_.fetch(drawn.arriving(), draw_arrays_.tokens, call.rows * sizeof(int32_t));
}

Status CudaStep::settle(StepTurn& turn) {
  TENON_RETURN_IF_ERROR(turn.wait());
  if (!turn.drawn.any() || !turn.drawn.tokens().empty()) return {};
  bool fetched = false;
  TENON_RETURN_IF_ERROR(turn.drawn.settle([&](uint32_t row) {
    const uint64_t vocabulary = turn.output().vocabulary;
    fetched = true;
    return driver_.fetch(turn.logits() + row * vocabulary, logits_ + row * vocabulary,
                         vocabulary * sizeof(float));
  }));
  turn.show_drawn();
  return fetched ? driver_.wait() : Status();
}

Status CudaStep::launch_layers() {
  failed_ = {};
  cleared_ = false;
  run_decoder(setup_.model->plan, *this);
  return std::move(failed_);
}

CudaGraphs::Key CudaStep::launch_key() const {
  CudaGraphs::Key key = {rows_, logits_count_};
  for (const GroupPlan& each : plans_) {
    key.push_back(static_cast<uint32_t>(each.host.tiles.size()));
    key.push_back(static_cast<uint32_t>(each.host.split_rows.size()));
    key.push_back(each.host.splits);
  }
  return key;
}

Status CudaStep::run_layers() {
  if (!padded_ || !graphs_.on()) return launch_layers();
  CudaGraphs::Key key = launch_key();
  if (void* const graph = graphs_.find(key)) return driver_.replay(graph);
  if (!graphs_.wants(key)) {
    Status launched = launch_layers();
    if (!launched.ok()) graphs_.forget(key);
    return launched;
  }
  const Status captured = capture(std::move(key));
  if (captured.ok()) return driver_.replay(graphs_.latest());
  // The step can do without.
  graphs_.give_up();
  log(LogLevel::warning, "executor cuda",
      "steps are no longer captured: " + std::string(captured.message()));
  return launch_layers();
}

Status CudaStep::capture(CudaGraphs::Key key) {
  TENON_RETURN_IF_ERROR(driver_.begin_capture());
  if (guest_) guest_->only_planned(true);
  Status launched = launch_layers();
  if (guest_) guest_->only_planned(false);
  Result<DeviceGraph> graph = driver_.end_capture();
  if (!graph.ok()) return launched.ok() ? graph.take_status() : std::move(launched);
  if (launched.ok()) return graphs_.keep(std::move(key), *graph);
  driver_.drop(graph->handle);
  return launched;
}

Result<StepOutput> CudaStep::collect(uint64_t step_id) {
  for (StepTurn& turn : turns_) {
    if (!turn.in_flight || turn.output().step_id != step_id) continue;
    turn.in_flight = false;
    TENON_RETURN_IF_ERROR(settle(turn));
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
