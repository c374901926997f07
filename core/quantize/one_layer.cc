#include "core/quantize/one_layer.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon::quantize {
namespace {

constexpr uint32_t kStateSlots = 2;

// The arrays of a step that computes one window.
struct WindowStep {
  std::vector<uint32_t> rows, sees_to;
  uint32_t kv_tokens = 0;
  BlockId block = 0, slot = 1;
  std::vector<BlockId> slots = {kNoBlock, 1};
  std::vector<uint32_t> ends;
  KvTableView table, state_table;
  BatchSequence sequence;
  std::vector<BatchGroup> groups;

  WindowStep(const ModelShape& shape, uint32_t window, bool sees_whole)
      : rows(window), kv_tokens(window), ends({0, window}) {
    std::iota(rows.begin(), rows.end(), 0u);
    if (sees_whole) sees_to.assign(window, window - 1);
    table.blocks = {&block, 1};
    state_table.blocks = slots;
    state_table.ends = ends;
    sequence.seq = 0;
    sequence.rows = window;
    for (GroupId group = 0; group < shape.group_count; ++group) {
      const bool recurrent = shape.groups[group].kind == KvKind::recurrent;
      groups.push_back(recurrent ? BatchGroup{{}, {}, {&state_table, 1}}
                                 : BatchGroup{rows, {&kv_tokens, 1}, {&table, 1}});
    }
  }
};

}  // namespace

Model single_layer(const Model& model, uint32_t layer) {
  Model single;
  single.path = model.path;
  single.plan = model.plan;
  single.plan.layers = {model.plan.layers[layer]};
  // Who shares a choice of positions attends to all of a window that is not longer than it
  // (LayerInputs::start).
  IndexPlan& index = single.plan.layers.front().index;
  if (index && index.heads == 0) index = {};
  single.plan.sinks.clear();
  if (layer < model.plan.sinks.size()) single.plan.sinks = {model.plan.sinks[layer]};
  single.layers = {model.layers[layer]};
  single.embedding = single.head = model.embedding;
  single.final_norm = model.final_norm;
  single.final_norm_bias = model.final_norm_bias;
  if (layer == 0) {
    single.positions = model.positions;
    single.embedding_norm = model.embedding_norm;
    single.embedding_norm_bias = model.embedding_norm_bias;
  } else {
    single.plan.learned_positions = false;
    single.plan.embedding_norm = {};
  }
  return single;
}

WindowRunner::WindowRunner(const Model& single, uint32_t window_tokens, ref::Multiply multiply)
    : single_(single),
      window_(window_tokens),
      shape_(std::make_unique<ModelShapeStorage>(single.plan, single.plan.context_tokens)),
      executor_(make_ref_executor(std::move(multiply))) {}

WindowRunner::~WindowRunner() = default;

Status WindowRunner::load() {
  const ModelShape& shape = shape_->shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const uint64_t bytes = kv_bytes_per_token(shape, group, DType::f32);
    if (shape.groups[group].kind == KvKind::recurrent) {
      groups_.push_back({DType::u8, 1, kStateSlots, bytes, 0});
    } else {
      groups_.push_back({DType::f32, window_, 1, bytes, 0});
    }
  }
  ExecutorSetup setup;
  setup.model = &single_;
  setup.shape = &shape;
  setup.geometry = {shape.context_tokens, 1, shape.group_count, groups_.data()};
  setup.max_rows = window_;
  setup.max_sequences = 1;
  return executor_->load(setup);
}

Status WindowRunner::run(std::span<const TokenId> tokens, std::span<const float> states,
                         std::span<float> out) {
  const WindowStep step(shape_->shape(), window_, single_.plan.mask_token.has_value());
  const uint64_t hidden = single_.plan.hidden;
  const std::vector<TokenId> none(states.empty() ? 0 : window_, kNoToken);
  const LayerId first = 0;
  BatchView batch;
  batch.step_id = ++step_id_;
  batch.rows = batch.padded_rows = window_;
  batch.padded_sequences = 1;
  batch.tokens = states.empty() ? tokens : none;
  batch.positions = step.rows;
  batch.sees_to = step.sees_to;
  batch.sequences = {&step.sequence, 1};
  batch.groups = step.groups;
  batch.hidden_rows = step.rows;
  batch.hidden_layers = {&first, 1};
  if (!states.empty()) {
    batch.inputs.data = const_cast<float*>(states.data());  // NOLINT: a view of what is only read
    batch.inputs.rank = 2;
    batch.inputs.shape[0] = window_;
    batch.inputs.shape[1] = batch.inputs.stride[0] = hidden;
  }
  TENON_RETURN_IF_ERROR(executor_->launch(batch));
  TENON_ASSIGN_OR_RETURN(const StepOutput output, executor_->collect(step_id_));
  std::copy_n(output.hidden[0], out.size(), out.begin());
  return {};
}

}  // namespace tenon::quantize
