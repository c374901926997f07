// Layers with a window, computed late.
//
// Nobody runs a head along prompts, and once drafts are wanted, most of what stands before the
// window is gone: managers keep one entry more than the window (window_of_draft in
// core/model/plan/model_shape.cc). So the first rows that are still held would see entries that are
// not. Only K and V of these rows are needed, and these follow from a row's own inputs, because a
// draft whose managers drop anything has a single layer that attends. They are computed as if the
// text began with the first block that is held. The rows that drafts come from are computed after
// that, see all that they must, and have the bits that they have where nothing was dropped.
#include <algorithm>

#include "core/engine/step/drafts/draft_runner.h"

namespace tenon {

// The first position of the first block that every group holds.
uint32_t DraftRunner::first_held(std::span<const KvTableView> tables) const {
  uint32_t first = 0;
  for (GroupId group = 0; group < groups(); ++group) {
    const std::span<const BlockId> blocks = tables[group].blocks;
    const auto held = std::ranges::find_if(blocks, [](BlockId block) { return block != kNoBlock; });
    const auto passed = static_cast<uint32_t>(held - blocks.begin());
    first = std::max(first, passed * parts_.geometry.groups[group].block_tokens);
  }
  return first;
}

// Puts those rows of a history that a window would show too little to into the pass at hand, or
// into others where that is full. They are in no pass together with rows that are wanted.
Status DraftRunner::skim(const RunnerRow& row) {
  const auto last = static_cast<uint32_t>(row.history.size()) - 1;
  for (;;) {
    const bool full =
        tokens_.size() == parts_.max_rows || sequences_.size() == parts_.max_sequences;
    if (!tokens_.empty() && full) TENON_RETURN_IF_ERROR(run_pass(false));
    if (tokens_.empty()) begin_pass();
    TENON_RETURN_IF_ERROR(find_tables(row.seq, looked_at_));
    const uint32_t held = first_held(looked_at_);
    if (held == 0) return {};
    uint32_t window = 0;
    for (GroupId group = 0; group < groups(); ++group) {
      window = std::max(window, parts_.shape->groups[group].window_tokens);
    }
    const uint32_t end = std::min(held + window - 1, last);
    const uint32_t first = reach(looked_at_, end);
    if (first == end) return {};
    const auto room = static_cast<uint32_t>(parts_.max_rows - tokens_.size());
    const uint32_t count = std::min(end - first, room);
    TENON_RETURN_IF_ERROR(push_rows(row, first, count));
    for (uint32_t i = 0; i < count; ++i) slots_.push_back(first - held + i);
    for (GroupId group = 0; group < groups(); ++group) {
      KvTableView& table = looked_at_[group];
      table.blocks = table.blocks.subspan(held / parts_.geometry.groups[group].block_tokens);
    }
    close_sequence(row.seq, count, first - held + count);
  }
}

}  // namespace tenon
