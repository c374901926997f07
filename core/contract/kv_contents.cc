#include "core/contract/kv_contents.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kUsualAnswer = 4096;  // tokens
constexpr uint32_t kMostRecent = 1u << 16;

constexpr uint64_t mixed(uint64_t value) {
  value *= 0x9e3779b97f4a7c15u;
  return value ^ (value >> 32);
}

}  // namespace

KvContents::KvContents(const ModelShape& shape, const KvGeometry& geometry)
    : states_(shape, geometry),
      recent_(std::bit_ceil(std::clamp(2 * geometry.max_sequences, 64u, kMostRecent))) {
  groups_.resize(std::min(shape.group_count, geometry.group_count));
  for (GroupId id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    const KvGroupGeometry& sizes = geometry.groups[id];
    group.block = BlockSize(std::max(sizes.block_tokens, 1u));
    group.window_tokens = shape.groups[id].window_tokens;
    group.kept_track_of = shape.groups[id].kind != KvKind::recurrent;
    if (!group.kept_track_of) continue;
    group.slots.resize(uint64_t{sizes.blocks} * group.block.tokens());
    group.swap_slots.resize(uint64_t{sizes.swap_blocks} * group.block.tokens());
    group.tables.resize(sizes.blocks);
    group.holders.resize(sizes.blocks);
  }
}

KvContents::RowName KvContents::extended(RowName before, TokenId token) {
  return mixed(before + static_cast<uint32_t>(token) + 1) | 1;
}

KvContents::Known* KvContents::find(SeqId seq) {
  Known*& recent = recent_[seq & (recent_.size() - 1)];
  if (recent != nullptr && recent->seq == seq) return recent;
  const auto found = sequences_.find(seq);
  return found == sequences_.end() ? nullptr : recent = &found->second;
}

KvContents::Known& KvContents::known(SeqId seq) {
  if (Known* found = find(seq)) return *found;
  Known& made = sequences_[seq];
  made.seq = seq;
  made.tables.resize(groups_.size());
  return made;
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
  last = std::min(last, table.blocks.size());
  if (first >= last) return;
  for (size_t i = first; i < last; ++i) {
    if (table.blocks[i] != kNoBlock) --groups_[id].tables[static_cast<size_t>(table.blocks[i])];
    table.blocks[i] = kNoBlock;
  }
  if (first <= table.whole_first) {
    table.whole_first = std::max(table.whole_first, last);
  } else {
    table.whole_end = std::min(table.whole_end, first);
  }
}

void KvContents::keep(SeqId seq, uint32_t tokens) {
  Known* const found = find(seq);
  if (found == nullptr) return;
  for (GroupId id = 0; id < found->tables.size(); ++id) {
    Table& table = found->tables[id];
    const BlockSize& block = groups_[id].block;
    const size_t end = block.blocks_of(tokens);
    forget(table, id, end, table.blocks.size());
    table.blocks.resize(std::min(table.blocks.size(), end));
    const size_t seen_from = block.block_of(first_visible(tokens, groups_[id].window_tokens));
    forget(table, id, std::exchange(table.first, std::max(table.first, seen_from)), seen_from);
    table.held = std::min(table.held, tokens);
    if (tokens == 0) table.first = 0;
  }
}

void KvContents::release(SeqId seq, ReleaseHow how) {
  keep(seq, 0);
  if (how != ReleaseHow::end) return;
  recent_[seq & (recent_.size() - 1)] = nullptr;
  sequences_.erase(seq);
}

void KvContents::move(const KvMove& move) {
  states_.move(move);
  if (move.group >= groups_.size() || !groups_[move.group].kept_track_of) return;
  Group& group = groups_[move.group];
  const auto slots_at = [&](const KvPlace& place) {
    auto& slots = place.tier == KvTier::swap ? group.swap_slots : group.slots;
    return slots.begin() +
           static_cast<ptrdiff_t>(
               uint64_t(static_cast<uint32_t>(place.block)) * group.block.tokens() + place.token);
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
  Known* const holder = find(group.holders[block].seq);
  if (holder == nullptr) return;
  uint32_t& held = holder->tables[move.group].held;
  held = std::min(held, group.holders[block].entry * group.block.tokens());
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
  const size_t first = group.block.block_of(entries.first);
  const size_t end = group.block.blocks_of(entries.end);
  if (end > table.blocks.size()) {
    return internal("table has " + std::to_string(table.blocks.size()) + " entries for sequence " +
                    std::to_string(sequence.seq) + " – expected " + std::to_string(end) + ", for " +
                    std::to_string(entries.end) + " tokens");
  }
  if (seen.whole_first <= first && end <= seen.whole_end &&
      std::memcmp(&table.blocks[first], &seen.blocks[first], (end - first) * sizeof(BlockId)) ==
          0) {
    return {};
  }
  if (seen.blocks.size() < end) {
    if (seen.blocks.capacity() < end) {
      seen.blocks.reserve(end + kUsualAnswer / group.block.tokens());
    }
    seen.blocks.resize(end, kNoBlock);
  }
  seen.whole_first = seen.whole_end = 0;
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
    seen.held = std::min(seen.held, static_cast<uint32_t>(i) * group.block.tokens());
  }
  seen.whole_first = first;
  seen.whole_end = end;
  return {};
}

namespace {

// Only one of the sequences that know a block writes to it in a step: not also one before
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

// Before anything is written: which blocks several sequences know of.
Status KvContents::see_tables(const BatchView& batch) {
  visits_.clear();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    if (sequence.rows == 0) continue;
    Known& of = known(sequence.seq);
    name_rows(batch, sequence, of);
    for (GroupId id = 0; id < groups_.size(); ++id) {
      const KvTableView& table = batch.groups[id].tables[i];
      Table& seen = of.tables[id];
      if (of.epoch != overwritten_) seen.held = 0;
      if (!groups_[id].kept_track_of) continue;
      if (table.evicted > 0) {
        // Which tokens the others are is the manager's alone to know.
        forget(seen, id, 0, seen.blocks.size());
        seen.blocks.clear();
        seen.whole_first = seen.whole_end = 0;
        seen.held = 0;
        continue;
      }
      const Entries entries = entries_of(batch, i, id, groups_[id]);
      TENON_RETURN_IF_ERROR(see_table(table, sequence, entries, id, seen));
      visits_.push_back({&sequence, &of, &seen, entries, id});
    }
    of.epoch = overwritten_;
  }
  return {};
}

Status KvContents::store_rows(const BatchView& batch) {
  for (const Visit& visit : visits_) {
    const Entries& entries = visit.entries;
    Group& group = groups_[visit.group];
    for (uint32_t i = group.block.block_of(entries.base); i < group.block.blocks_of(entries.end);
         ++i) {
      const BlockId block = visit.seen->blocks[i];
      if (group.tables[static_cast<size_t>(block)] < 2) continue;
      const auto index = static_cast<size_t>(visit.sequence - batch.sequences.data());
      TENON_RETURN_IF_ERROR(check_writer(batch, index, visit.group, group.block.tokens(), block));
    }
    for (uint32_t i = 0; i < visit.sequence->rows; ++i) {
      const uint32_t entry = entries.base + i;
      const BlockId block = visit.seen->blocks[group.block.block_of(entry)];
      RowName& slot = group.slots[group.block.slot(block, entry)];
      const RowName name = row_names_[visit.sequence->first_row + i];
      if (slot != name && group.tables[static_cast<size_t>(block)] > 1) ++overwritten_;
      slot = name;
    }
  }
  return {};
}

// What the step reads is what it must be, its own rows included.
Status KvContents::hold(const Visit& visit) const {
  const auto& [sequence, known, seen, entries, id] = visit;
  const Group& group = groups_[id];
  for (uint32_t entry = std::max(seen->held, entries.first); entry < entries.end; ++entry) {
    const BlockId block = seen->blocks[group.block.block_of(entry)];
    const RowName found = group.slots[group.block.slot(block, entry)];
    const bool own = entry >= entries.base;
    const RowName expected = own ? row_names_[sequence->first_row + entry - entries.base]
                                 : (entry < known->rows.size() ? known->rows[entry] : 0);
    if (found == expected) continue;
    return internal("table gave block " + std::to_string(block) + " as entry " +
                    std::to_string(group.block.block_of(entry)) + " of sequence " +
                    std::to_string(sequence->seq) + ", whose slot for position " +
                    std::to_string(entry) + " " +
                    (found == 0 ? "was never written" : "holds K/V of other tokens") +
                    " – expected the sequence's own");
  }
  seen->held = entries.end;
  return {};
}

StateContents::Rows KvContents::rows_of(const BatchView& batch, const BatchSequence& sequence) {
  const Known& of = known(sequence.seq);
  StateContents::Rows rows;
  rows.seq = sequence.seq;
  rows.base = batch.positions[sequence.first_row * (batch.positions.size() / batch.rows)];
  if (rows.base > 0 && rows.base <= of.rows.size()) rows.before = of.rows[rows.base - 1];
  rows.names = std::span(row_names_).subspan(sequence.first_row, sequence.rows);
  return rows;
}

Status KvContents::step_states(const BatchView& batch) {
  states_.begin_step();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    if (batch.sequences[i].rows == 0) continue;
    TENON_RETURN_IF_ERROR(states_.start(batch, i, rows_of(batch, batch.sequences[i])));
  }
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    if (batch.sequences[i].rows == 0) continue;
    TENON_RETURN_IF_ERROR(states_.write(batch, i, rows_of(batch, batch.sequences[i])));
  }
  return {};
}

Status KvContents::write(const BatchView& batch) {
  if (groups_.empty() || batch.groups.size() < groups_.size()) return {};
  row_names_.resize(std::max<size_t>(row_names_.size(), batch.rows));
  const uint64_t before = overwritten_;
  TENON_RETURN_IF_ERROR(see_tables(batch));
  TENON_RETURN_IF_ERROR(store_rows(batch));
  for (const Visit& visit : visits_) {
    if (overwritten_ == before) break;
    visit.seen->held = 0;
    visit.known->epoch = overwritten_;
  }
  for (const Visit& visit : visits_) {
    if (overwritten_ == before && visit.seen->held == visit.entries.base) {
      visit.seen->held = visit.entries.end;  // just written, into blocks that nobody else knows of
    } else {
      TENON_RETURN_IF_ERROR(hold(visit));
    }
  }
  return states_.empty() ? Status() : step_states(batch);
}

}  // namespace tenon
