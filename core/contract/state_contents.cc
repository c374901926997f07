#include "core/contract/state_contents.h"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

Status wrong_slot(BlockId slot, const std::string& what, SeqId seq, const std::string& how,
                  const std::string& expected) {
  return internal("table gave slot " + std::to_string(slot) + " as " + what + " of sequence " +
                  std::to_string(seq) + ", " + how + " – expected " + expected);
}

}  // namespace

StateContents::StateContents(const ModelShape& shape, const KvGeometry& geometry) {
  for (GroupId id = 0; id < std::min(shape.group_count, geometry.group_count); ++id) {
    if (shape.groups[id].kind != KvKind::recurrent) continue;
    const KvGroupGeometry& sizes = geometry.groups[id];
    Group& group = groups_.emplace_back();
    group.id = id;
    group.slots.resize(sizes.blocks);
    group.swap_slots.resize(sizes.swap_blocks);
    group.read_in.resize(sizes.blocks);
    group.written_in.resize(sizes.blocks);
  }
}

void StateContents::move(const KvMove& move) {
  for (Group& group : groups_) {
    if (group.id != move.group) continue;
    const auto slot = [&](const KvPlace& place) -> RowName& {
      auto& slots = place.tier == KvTier::swap ? group.swap_slots : group.slots;
      return slots[static_cast<size_t>(place.block)];
    };
    slot(move.to) = slot(move.from);
  }
}

Status StateContents::start(const BatchView& batch, size_t index, const Rows& rows) {
  for (Group& group : groups_) {
    const KvTableView& table = batch.groups[group.id].tables[index];
    if (table.blocks.empty() || table.ends.empty()) continue;  // the executor names that
    const BlockId from = table.blocks[0];
    const std::string what = "the state after " + std::to_string(rows.base) + " tokens";
    if (table.ends[0] != rows.base || (from == kNoBlock) != (rows.base == 0)) {
      return wrong_slot(from, "the state after " + std::to_string(table.ends[0]) + " tokens",
                        rows.seq, "whose rows begin after " + std::to_string(rows.base),
                        "the slot that they start from");
    }
    if (from == kNoBlock) continue;
    const auto at = static_cast<size_t>(from);
    if (from < 0 || at >= group.slots.size()) {
      return wrong_slot(from, what, rows.seq, "which is none",
                        "0 to " + std::to_string(group.slots.size() - 1));
    }
    group.read_in[at] = step_;
    if (group.slots[at] == rows.before && rows.before != 0) continue;
    return wrong_slot(from, what, rows.seq,
                      group.slots[at] == 0 ? "which was never written"
                                           : "which holds the state after other tokens",
                      "the sequence's own");
  }
  return {};
}

Status StateContents::write(const BatchView& batch, size_t index, const Rows& rows) {
  for (Group& group : groups_) {
    const KvTableView& table = batch.groups[group.id].tables[index];
    for (size_t i = 1; i < std::min(table.ends.size(), table.blocks.size()); ++i) {
      const uint64_t count = uint64_t{table.ends[i]} - table.ends[0];
      if (table.ends[i] <= table.ends[0] || count > rows.names.size()) break;
      const BlockId to = table.blocks[i];
      const auto at = static_cast<size_t>(to);
      const std::string what = "the state after " + std::to_string(table.ends[i]) + " tokens";
      if (to < 0 || at >= group.slots.size()) {
        return wrong_slot(to, what, rows.seq, "which is none",
                          "0 to " + std::to_string(group.slots.size() - 1));
      }
      if (group.read_in[at] == step_ || group.written_in[at] == step_) {
        return wrong_slot(to, what, rows.seq,
                          group.read_in[at] == step_ ? "which the step starts from as well"
                                                     : "which the step writes to twice",
                          "a slot that is one's own");
      }
      group.written_in[at] = step_;
      group.slots[at] = rows.names[count - 1];
    }
  }
  return {};
}

}  // namespace tenon
