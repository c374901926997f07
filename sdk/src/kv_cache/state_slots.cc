#include <tenon/sdk/kv_cache/state_slots.h>

#include <algorithm>

namespace tenon::sdk {

bool StateGroup::can_start(const StateTable& table, uint32_t from) {
  if (table.slots[table.start].end == from) return true;
  return table.slots.size() == table.first_end + 1 && table.slots.back().end == from;
}

void StateGroup::make_room(StateTable& table, uint32_t from, size_t slots) {
  table.slots.reserve(table.slots.size() + slots);
  const bool ahead = table.slots[table.start].end < from && table.slots.size() > 1;
  StateTable::View& view = table.views[ahead ? table.shown ^ 1 : table.shown];
  view.blocks.reserve(slots + 1);
  view.ends.reserve(slots + 1);
}

void StateGroup::grow(StateTable& table, uint32_t from, uint32_t end, uint32_t known,
                      std::span<const uint32_t> on_the_way, uint64_t step) {
  const bool again = table.slots[table.start].end == from;
  if (!again) table.start = table.first_end;
  size_t next = table.start;
  const auto have = [&](uint32_t at) {
    if (++next == table.slots.size()) table.slots.push_back({pool.take(), at, step});
    table.slots[next].end = at;
  };
  for (const uint32_t at : on_the_way) have(at);
  table.first_end = next + 1;
  for (uint32_t at = first_end(from, end, known); at <= end; ++at) have(at);
  drop_behind(table, next);
  show(table, again);
}

void StateGroup::trim(StateTable& table, uint32_t end) {
  std::vector<StateSlot>& slots = table.slots;
  while (slots.size() > table.start + 1 && slots.back().end > end) {
    // A grant that ends among known tokens has a slot after the last of them.
    if (slots[slots.size() - 2].end < end) {
      slots.back().end = end;
      break;
    }
    drop_behind(table, slots.size() - 2);
  }
  table.first_end = std::min(table.first_end, slots.size() - 1);
  show(table, true);
}

bool StateGroup::has(const StateTable& table, uint32_t computed, uint32_t in_flight) {
  const std::vector<StateSlot>& slots = table.slots;
  if (in_flight > 0 && slots.back().end != computed + in_flight) return false;
  const size_t last = in_flight > 0 ? table.start : slots.size() - 1;
  return std::any_of(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                     [&](const StateSlot& slot) { return slot.end == computed; });
}

// The step that wrote the slot to keep is the last to read those before it.
void StateGroup::resolve(StateTable& table, uint32_t computed, uint32_t in_flight) {
  std::vector<StateSlot>& slots = table.slots;
  size_t kept = 0;
  while (slots[kept].end != computed) ++kept;
  for (size_t i = 0; i < kept; ++i) drop(slots[i], slots[kept].step);
  if (in_flight == 0) drop_behind(table, kept);
  slots.erase(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(kept));
  if (slots[0].block != kNoBlock) pool.set_filled(slots[0].block, 1);
  if (in_flight > 0) {
    table.start -= kept;
    table.first_end -= kept;
    return;
  }
  table.start = table.first_end = 0;
  show(table, false);
}

void StateGroup::drop_behind(StateTable& table, size_t last) {
  for (; table.slots.size() > last + 1; table.slots.pop_back()) {
    drop(table.slots.back(), table.slots.back().step);
  }
}

void StateGroup::release(StateTable& table, uint64_t last_step) {
  for (const StateSlot& slot : table.slots) drop(slot, last_step);
  table.slots.assign(1, {});
  table.start = table.first_end = 0;
  show(table, false);
}

void StateGroup::share(StateTable& child, const StateTable& parent, bool copy) {
  child.slots[0] = parent.final();
  BlockId& block = child.slots[0].block;
  if (block != kNoBlock && copy) {
    const BlockId own = pool.take();
    moves_->push({id_, {{}, block, 0}, {{}, own, 0}, 1});
    pool.set_filled(own, 1);
    ++counters_->copied_blocks;
    block = own;
  } else if (block != kNoBlock) {
    pool.share(block);
  }
  show(child, false);
}

void StateGroup::start_from(StateTable& table, BlockId found, uint32_t tokens, uint64_t step) {
  pool.find(found);
  pool.set_filled(found, 1);
  table.slots[0] = {found, tokens, step};
}

void StateGroup::swap_out(StateTable& table) {
  if (table.final().block == kNoBlock) return;
  table.swapped = swap.take();
  swap.set_filled(table.swapped, 1);
  moves_->push({id_, {{}, table.final().block, 0}, {{}, table.swapped, 0, KvTier::swap}, 1});
  ++counters_->swapped_out_blocks;
}

void StateGroup::swap_in(StateTable& table, uint32_t tokens, uint64_t step) {
  table.slots[0] = {pool.take(), tokens, step};
  pool.set_filled(table.slots[0].block, 1);
  moves_->push({id_, {{}, table.swapped, 0, KvTier::swap}, {{}, table.slots[0].block, 0}, 1});
  ++counters_->swapped_in_blocks;
}

void StateGroup::drop_swapped(StateTable& table, uint64_t last_step) {
  if (table.swapped != kNoBlock) swap.drop(table.swapped, last_step);
  table.swapped = kNoBlock;
}

const char* StateGroup::flaw(const StateTable& table, uint32_t computed, uint32_t granted) {
  if (table.slots.empty() || table.final().end != computed) return "has lost its state";
  if ((table.final().block == kNoBlock) != (computed == 0)) return "has no slot for its state";
  if (table.start >= table.slots.size()) return "starts behind its slots";
  if (table.first_end < table.start || table.first_end >= table.slots.size()) {
    return "may end where it has no slot";
  }
  for (size_t i = 1; i < table.slots.size(); ++i) {
    if (table.slots[i].block == kNoBlock) return "has a hole among its slots";
    if (table.slots[i].end <= table.slots[i - 1].end) return "has slots out of order";
  }
  return table.slots.back().end == granted ? nullptr : "has no slot where its grant ends";
}

// `again`: the view of this grant changes, else another view takes its place.
void StateGroup::show(StateTable& table, bool again) {
  if (!again) table.shown ^= 1;
  StateTable::View& view = table.views[table.shown];
  view.blocks.clear();
  view.ends.clear();
  for (size_t i = table.start; i < table.slots.size(); ++i) {
    view.blocks.push_back(table.slots[i].block);
    view.ends.push_back(table.slots[i].end);
  }
}

}  // namespace tenon::sdk
