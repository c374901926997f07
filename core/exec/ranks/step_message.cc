#include "core/exec/ranks/step_message.h"

namespace tenon {

void write_step(MessageWriter& to, const BatchView& batch) {
  to.number(batch.step_id);
  to.number(batch.rows);
  to.number(batch.padded_rows);
  to.number(batch.padded_sequences);
  to.array(batch.tokens);
  to.array(batch.positions);
  to.array(batch.tree_parents);
  to.array(batch.sees_to);
  to.array(batch.sequences);
  to.array(batch.logits_rows);
  to.array(batch.hidden_rows);
  to.array(batch.hidden_layers);
  to.number<uint64_t>(batch.groups.size());
  for (const BatchGroup& group : batch.groups) {
    to.array(group.slots);
    to.array(group.kv_tokens);
    to.number<uint64_t>(group.tables.size());
    for (const KvTableView& table : group.tables) {
      to.array(table.blocks);
      to.array(table.ends);
      to.number(table.evicted);
    }
  }
  const TensorView& inputs = batch.inputs;
  to.number<uint8_t>(inputs.data != nullptr ? 1 : 0);
  if (inputs.data == nullptr) return;
  to.number(inputs.shape[1]);
  const auto* rows = static_cast<const float*>(inputs.data);
  for (uint32_t row = 0; row < batch.rows; ++row) {
    to.array(std::span(rows + row * inputs.stride[0], inputs.shape[1]));
  }
}

ReceivedStep::ReceivedStep(MessageReader& from) {
  batch_.step_id = from.number<uint64_t>();
  batch_.rows = from.number<uint32_t>();
  batch_.padded_rows = from.number<uint32_t>();
  batch_.padded_sequences = from.number<uint32_t>();
  batch_.tokens = tokens_ = from.array<TokenId>();
  batch_.positions = positions_ = from.array<uint32_t>();
  batch_.tree_parents = tree_parents_ = from.array<int32_t>();
  batch_.sees_to = sees_to_ = from.array<uint32_t>();
  batch_.sequences = sequences_ = from.array<BatchSequence>();
  batch_.logits_rows = logits_rows_ = from.array<uint32_t>();
  batch_.hidden_rows = hidden_rows_ = from.array<uint32_t>();
  batch_.hidden_layers = hidden_layers_ = from.array<LayerId>();
  const auto groups = from.number<uint64_t>();
  for (uint64_t group = 0; group < groups; ++group) read_group(from);
  batch_.groups = group_views_;
  if (from.number<uint8_t>() == 0) return;
  const auto width = from.number<uint64_t>();
  for (uint32_t row = 0; row < batch_.rows; ++row) {
    const std::vector<float> values = from.array<float>();
    inputs_.insert(inputs_.end(), values.begin(), values.end());
  }
  batch_.inputs = {.data = inputs_.data(),
                   .dtype = DType::f32,
                   .space = {},
                   .rank = 2,
                   .shape = {batch_.rows, width, 1, 1},
                   .stride = {width, 1, 1, 1}};
}

void ReceivedStep::read_group(MessageReader& from) {
  Group& group = groups_.emplace_back();
  group.slots = from.array<uint32_t>();
  group.kv_tokens = from.array<uint32_t>();
  const auto tables = from.number<uint64_t>();
  for (uint64_t table = 0; table < tables; ++table) {
    const std::vector<BlockId>& blocks = blocks_.emplace_back(from.array<BlockId>());
    const std::vector<uint32_t>& ends = ends_.emplace_back(from.array<uint32_t>());
    group.tables.push_back({blocks, ends, from.number<uint32_t>()});
  }
  group_views_.push_back({group.slots, group.kv_tokens, group.tables});
}

void write_moves(MessageWriter& to, std::span<const KvMove> moves) {
  to.array(moves);
}

std::vector<KvMove> read_moves(MessageReader& from) {
  return from.array<KvMove>();
}

}  // namespace tenon
