#include "core/contract/kv_contents.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kUsualAnswer = 4096;  // tokens

constexpr uint64_t mixed(uint64_t value) {
  value *= 0x9e3779b97f4a7c15u;
  return value ^ (value >> 32);
}

}  // namespace

KvContents::KvContents(const ModelShape& shape, const KvGeometry& geometry) {
  groups_.resize(std::min(shape.group_count, geometry.group_count));
  for (GroupId id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    const KvGroupGeometry& sizes = geometry.groups[id];
    group.block_tokens = std::max(sizes.block_tokens, 1u);
    group.window_tokens = shape.groups[id].window_tokens;
    group.kept_track_of = shape.groups[id].kind != KvKind::recurrent;
    if (!group.kept_track_of) continue;
    group.slots.resize(uint64_t{sizes.blocks} * group.block_tokens);
    group.swap_slots.resize(uint64_t{sizes.swap_blocks} * group.block_tokens);
    group.tables.resize(sizes.blocks);
    group.holders.resize(sizes.blocks);
  }
}

KvContents::RowName KvContents::extended(RowName before, TokenId token) {
  return mixed(before + static_cast<uint32_t>(token) + 1) | 1;
}

KvContents::Known& KvContents::known(SeqId seq) {
  Known& known = sequences_[seq];
  if (known.tables.empty()) known.tables.resize(groups_.size());
  return known;
}

void KvContents::begin(const KvSequence& sequence) {
  Known& made = known(sequence.seq);
  made.limit_tokens = sequence.limit_tokens;
  made.seed = mixed(mixed(sequence.key.salt) + sequence.key.adapter);
  for (const uint64_t hash : sequence.key.content) made.seed = mixed(made.seed ^ hash);
  if (sequence.parent == kNoSeq) return;
  const Known& parent = known(sequence.parent);
  if (parent.seed != made.seed) return;
  const size_t tokens = std::min<size_t>(sequence.parent_tokens, parent.rows.size());
  made.rows.assign(parent.rows.begin(), parent.rows.begin() + static_cast<ptrdiff_t>(tokens));
}

void KvContents::know(SeqId seq, std::span<const TokenId> tokens) {
  Known& of = known(seq);
  std::vector<RowName>& rows = of.rows;
  if (rows.size() >= tokens.size()) return;
  if (rows.capacity() < tokens.size()) {
    const uint64_t limit = std::max<uint64_t>(of.limit_tokens, tokens.size());
    rows.reserve(std::min<uint64_t>(limit, tokens.size() + kUsualAnswer));
  }
  RowName name = rows.empty() ? of.seed : rows.back();
  for (const TokenId token : tokens.subspan(rows.size())) {
    rows.push_back(name = extended(name, token));
  }
}

// Entries [first, last) are the sequence's no more.
void KvContents::forget(Table& table, GroupId id, size_t first, size_t last) {
  for (size_t i = first; i < std::min(last, table.blocks.size()); ++i) {
    if (table.blocks[i] != kNoBlock) --groups_[id].tables[static_cast<size_t>(table.blocks[i])];
    table.blocks[i] = kNoBlock;
  }
}

void KvContents::keep(SeqId seq, uint32_t tokens) {
  const auto found = sequences_.find(seq);
  if (found == sequences_.end()) return;
  for (GroupId id = 0; id < found->second.tables.size(); ++id) {
    Table& table = found->second.tables[id];
    const uint32_t size = groups_[id].block_tokens;
    const size_t end = (uint64_t{tokens} + size - 1) / size;
    forget(table, id, end, table.blocks.size());
    table.blocks.resize(std::min(table.blocks.size(), end));
    const size_t seen_from = first_visible(tokens, groups_[id].window_tokens) / size;
    forget(table, id, std::exchange(table.first, std::max(table.first, seen_from)), seen_from);
    table.held = std::min(table.held, tokens);
    if (tokens == 0) table.first = 0;
  }
}

void KvContents::release(SeqId seq, ReleaseHow how) {
  keep(seq, 0);
  if (how == ReleaseHow::end) sequences_.erase(seq);
}

void KvContents::move(const KvMove& move) {
  if (move.group >= groups_.size() || !groups_[move.group].kept_track_of) return;
  Group& group = groups_[move.group];
  const auto slots_at = [&](const KvPlace& place) {
    auto& slots = place.tier == KvTier::swap ? group.swap_slots : group.slots;
    return slots.begin() +
           static_cast<ptrdiff_t>(
               uint64_t(static_cast<uint32_t>(place.block)) * group.block_tokens + place.token);
  };
  const auto from = slots_at(move.from), to = slots_at(move.to);
  if (from < to && to < from + move.tokens) {
    std::copy_backward(from, from + move.tokens, to + move.tokens);
  } else {
    std::copy_n(from, move.tokens, to);
  }
  if (move.to.tier == KvTier::swap) return;
  const auto block = static_cast<size_t>(move.to.block);
  if (group.tables[block] > 1) ++overwritten_;
  if (group.tables[block] != 1) return;
  const auto holder = sequences_.find(group.holders[block].seq);
  if (holder == sequences_.end()) return;
  uint32_t& held = holder->second.tables[move.group].held;
  held = std::min(held, group.holders[block].entry * group.block_tokens);
}

KvContents::Entries KvContents::entries_of(const BatchView& batch, size_t index, GroupId id,
                                           const Group& group) {
  const BatchGroup& of = batch.groups[id];
  Entries entries;
  entries.base = of.slots[batch.sequences[index].first_row];
  entries.end = of.kv_tokens[index];
  entries.first = first_visible(entries.base, group.window_tokens);
  return entries;
}

// Names the rows of one sequence, which are the same in all groups.
void KvContents::name_rows(const BatchView& batch, const BatchSequence& sequence,
                           const Known& known) {
  const uint32_t base = batch.positions[sequence.first_row * (batch.positions.size() / batch.rows)];
  const RowName before = base == 0                   ? known.seed
                         : base <= known.rows.size() ? known.rows[base - 1]
                                                     : 0;
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const uint32_t row = sequence.first_row + i;
    RowName name = i == 0 ? before : row_names_[row - 1];
    if (!batch.tree_parents.empty()) {
      const int32_t parent = batch.tree_parents[row];
      name = parent < 0 ? before : row_names_[static_cast<size_t>(parent)];
    }
    row_names_[row] = extended(name, batch.tokens[row]);
  }
}

// Takes over what the table says of the entries that the step needs.
Status KvContents::see_table(const KvTableView& table, const BatchSequence& sequence,
                             const Entries& entries, GroupId id, Table& seen) {
  Group& group = groups_[id];
  const size_t first = entries.first / group.block_tokens;
  const size_t end = (uint64_t{entries.end} + group.block_tokens - 1) / group.block_tokens;
  if (end > table.blocks.size()) {
    return internal("table has " + std::to_string(table.blocks.size()) + " entries for sequence " +
                    std::to_string(sequence.seq) + " – expected " + std::to_string(end) + ", for " +
                    std::to_string(entries.end) + " tokens");
  }
  if (seen.blocks.size() < end) {
    if (seen.blocks.capacity() < end) seen.blocks.reserve(end + kUsualAnswer / group.block_tokens);
    seen.blocks.resize(end, kNoBlock);
  }
  for (size_t i = first; i < end; ++i) {
    const BlockId now = table.blocks[i], before = seen.blocks[i];
    if (now == before && now != kNoBlock) continue;
    if (now < 0 || static_cast<size_t>(now) >= group.tables.size()) {
      return internal("table gave block " + std::to_string(now) + " as entry " + std::to_string(i) +
                      " of sequence " + std::to_string(sequence.seq) + " – expected 0 to " +
                      std::to_string(group.tables.size() - 1));
    }
    if (before != kNoBlock) --group.tables[static_cast<size_t>(before)];
    ++group.tables[static_cast<size_t>(now)];
    group.holders[static_cast<size_t>(now)] = {sequence.seq, static_cast<uint32_t>(i)};
    seen.blocks[i] = now;
    seen.held = std::min(seen.held, static_cast<uint32_t>(i) * group.block_tokens);
  }
  return {};
}

void KvContents::store(const BatchSequence& sequence, const Entries& entries, const Table& seen,
                       Group& group) {
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const uint32_t entry = entries.base + i;
    const auto block = static_cast<size_t>(seen.blocks[entry / group.block_tokens]);
    RowName& slot = group.slots[block * group.block_tokens + entry % group.block_tokens];
    const RowName name = row_names_[sequence.first_row + i];
    if (slot != name && group.tables[block] > 1) ++overwritten_;
    slot = name;
  }
}

namespace {

// Of a block that several sequences know of only one writes in a step: not also one in front of
// sequence `index`.
Status check_writer(const BatchView& batch, size_t index, GroupId id, uint32_t block_tokens,
                    BlockId block) {
  const BatchGroup& group = batch.groups[id];
  for (size_t i = 0; i < index; ++i) {
    const BatchSequence& other = batch.sequences[i];
    if (other.rows == 0 || group.tables[i].evicted > 0) continue;
    const uint32_t first = group.slots[other.first_row] / block_tokens;
    const uint32_t last = (group.kv_tokens[i] - 1) / block_tokens;
    const auto written = group.tables[i].blocks.subspan(first, last - first + 1);
    if (std::find(written.begin(), written.end(), block) == written.end()) continue;
    return internal("table gave block " + std::to_string(block) + " to sequences " +
                    std::to_string(other.seq) + " and " +
                    std::to_string(batch.sequences[index].seq) +
                    ", which both write to it in one step – expected a block that is one's own");
  }
  return {};
}

}  // namespace

// What the step reads is what it must be, its own rows included.
Status KvContents::hold(const BatchSequence& sequence, const Entries& entries, GroupId id,
                        const Known& known, Table& seen) const {
  const Group& group = groups_[id];
  for (uint32_t entry = std::max(seen.held, entries.first); entry < entries.end; ++entry) {
    const auto block = static_cast<size_t>(seen.blocks[entry / group.block_tokens]);
    const RowName found = group.slots[block * group.block_tokens + entry % group.block_tokens];
    const bool own = entry >= entries.base;
    const RowName expected = own ? row_names_[sequence.first_row + entry - entries.base]
                                 : (entry < known.rows.size() ? known.rows[entry] : 0);
    if (found == expected) continue;
    return internal("table gave block " + std::to_string(block) + " as entry " +
                    std::to_string(entry / group.block_tokens) + " of sequence " +
                    std::to_string(sequence.seq) + ", whose slot for position " +
                    std::to_string(entry) + " " +
                    (found == 0 ? "was never written" : "holds K/V of other tokens") +
                    " – expected the sequence's own");
  }
  seen.held = entries.end;
  return {};
}

Status KvContents::write(const BatchView& batch) {
  if (groups_.empty() || batch.groups.size() < groups_.size()) return {};
  row_names_.resize(std::max<size_t>(row_names_.size(), batch.rows));
  step_.clear();
  const uint64_t before = overwritten_;
  for (const BatchSequence& sequence : batch.sequences) {
    Known& of = known(sequence.seq);
    step_.push_back(&of);
    if (sequence.rows > 0) name_rows(batch, sequence, of);
  }
  const auto each = [&](auto&& visit) -> Status {
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      for (GroupId id = 0; id < groups_.size() && batch.sequences[i].rows > 0; ++id) {
        // Where entries were taken out, which tokens the others are is the manager's alone to know.
        const KvTableView& table = batch.groups[id].tables[i];
        if (!groups_[id].kept_track_of || table.evicted > 0) continue;
        TENON_RETURN_IF_ERROR(
            visit(batch.sequences[i], table, entries_of(batch, i, id, groups_[id]), id, *step_[i]));
      }
    }
    return {};
  };
  Status status = each(
      [&](const auto& sequence, const auto& table, const Entries& entries, GroupId id, Known& of) {
        Table& seen = of.tables[id];
        if (of.epoch != before) seen.held = 0;
        return see_table(table, sequence, entries, id, seen);
      });
  if (!status.ok()) return status;
  status = each([&](const auto& sequence, const auto&, const Entries& entries, GroupId id,
                    Known& of) -> Status {
    const Group& group = groups_[id];
    const Table& seen = of.tables[id];
    for (uint64_t i = entries.base / group.block_tokens; i * group.block_tokens < entries.end;
         ++i) {
      if (group.tables[static_cast<size_t>(seen.blocks[i])] < 2) continue;
      const auto index = static_cast<size_t>(&sequence - batch.sequences.data());
      Status own = check_writer(batch, index, id, group.block_tokens, seen.blocks[i]);
      if (!own.ok()) return own;
    }
    store(sequence, entries, seen, groups_[id]);
    return {};
  });
  if (!status.ok()) return status;
  status = each([&](const auto& sequence, const auto&, const Entries& entries, GroupId id,
                    Known& of) -> Status {
    Table& seen = of.tables[id];
    if (overwritten_ != before) {
      seen.held = 0;
    } else if (seen.held == entries.base) {
      seen.held = entries.end;  // just written, into blocks that nobody else knows of
      return {};
    }
    return hold(sequence, entries, id, of, seen);
  });
  for (Known* of : step_) of->epoch = overwritten_;
  return status;
}

}  // namespace tenon
