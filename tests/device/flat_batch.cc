#include "tests/device/flat_batch.h"

#include <algorithm>
#include <cstring>

namespace tenon::test {
namespace {

constexpr uint64_t kMagic = 0x68637461622d7466;

struct Header {
  uint64_t magic = kMagic;
  uint64_t step_id = 0;
  uint32_t rows = 0;
  uint32_t padded_rows = 0;
  uint32_t sequences = 0;
  uint32_t padded_sequences = 0;
  uint32_t chosen = 0;
  uint32_t blocks = 0;  // of all tables
  uint32_t parents = 0;
  uint32_t spans = 0;
};

// Where a sequence's table stands among all blocks.
struct Table {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t evicted = 0;
  uint32_t unused = 0;
};

// Arrays one after the other, each aligned to 8.
template <typename Byte>
struct Cursor {
  Byte* at;

  template <typename T>
  T* take(uint64_t count) {
    auto* here = reinterpret_cast<T*>(at);
    at += (count * sizeof(T) + 7) / 8 * 8;
    return here;
  }
};

template <typename T>
void put(Cursor<std::byte>& to, std::span<const T> values) {
  T* here = to.take<T>(values.size());
  if (!values.empty()) std::memcpy(here, values.data(), values.size_bytes());
}

template <typename T>
std::span<const T> get(Cursor<const std::byte>& from, uint64_t count) {
  return {from.take<const T>(count), count};
}

}  // namespace

uint64_t flat_batch_bytes(const FlatBatchLimits& limits) {
  const auto array = [](uint64_t count, uint64_t size) { return (count * size + 7) / 8 * 8; };
  return sizeof(Header) + array(limits.sequences, sizeof(BatchSequence)) +
         2 * array(limits.sequences, sizeof(uint32_t)) + array(limits.sequences, sizeof(Table)) +
         3 * array(limits.rows, sizeof(uint32_t)) +
         array(uint64_t{limits.sequences} * limits.table_entries, sizeof(BlockId));
}

uint64_t write_flat_batch(const BatchView& batch, GroupId id, std::span<const uint32_t> chosen,
                          const FlatBatchLimits& limits, void* to) {
  const BatchGroup& group = batch.groups[id];
  Header header{.step_id = batch.step_id,
                .rows = batch.rows,
                .padded_rows = batch.padded_rows,
                .sequences = static_cast<uint32_t>(batch.sequences.size()),
                .padded_sequences = batch.padded_sequences,
                .chosen = static_cast<uint32_t>(chosen.size()),
                .parents = static_cast<uint32_t>(batch.tree_parents.size()),
                .spans = static_cast<uint32_t>(batch.sees_to.size())};
  if (header.rows > limits.rows || header.sequences > limits.sequences) return 0;
  std::vector<Table> tables;
  std::vector<BlockId> blocks;
  for (const KvTableView& table : group.tables) {
    if (table.blocks.size() > limits.table_entries) return 0;
    tables.push_back({static_cast<uint32_t>(blocks.size()),
                      static_cast<uint32_t>(table.blocks.size()), table.evicted, 0});
    blocks.insert(blocks.end(), table.blocks.begin(), table.blocks.end());
  }
  header.blocks = static_cast<uint32_t>(blocks.size());
  auto* start = static_cast<std::byte*>(to);
  Cursor<std::byte> cursor{start};
  put(cursor, std::span<const Header>(&header, 1));
  put(cursor, batch.sequences);
  put(cursor, group.slots);
  put(cursor, group.kv_tokens);
  put(cursor, batch.tree_parents);
  put(cursor, batch.sees_to);
  put(cursor, chosen);
  put(cursor, std::span<const Table>(tables));
  put(cursor, std::span<const BlockId>(blocks));
  return static_cast<uint64_t>(cursor.at - start);
}

bool FlatBatch::read(const void* from, GroupId group) {
  Cursor<const std::byte> cursor{static_cast<const std::byte*>(from)};
  const Header& header = *cursor.take<const Header>(1);
  if (header.magic != kMagic) return false;
  batch_ = {};
  batch_.step_id = header.step_id;
  batch_.rows = header.rows;
  batch_.padded_rows = header.padded_rows;
  batch_.padded_sequences = header.padded_sequences;
  batch_.sequences = get<BatchSequence>(cursor, header.sequences);
  groups_.assign(group + 1, {});
  groups_[group].slots = get<uint32_t>(cursor, header.rows);
  groups_[group].kv_tokens = get<uint32_t>(cursor, header.sequences);
  batch_.tree_parents = get<int32_t>(cursor, header.parents);
  batch_.sees_to = get<uint32_t>(cursor, header.spans);
  chosen_ = get<uint32_t>(cursor, header.chosen);
  const auto tables = get<Table>(cursor, header.sequences);
  const auto blocks = get<BlockId>(cursor, header.blocks);
  tables_.clear();
  for (const Table& table : tables) {
    KvTableView& view = tables_.emplace_back();
    view.blocks = blocks.subspan(table.first, table.count);
    view.evicted = table.evicted;
  }
  groups_[group].tables = tables_;
  batch_.groups = groups_;
  return true;
}

}  // namespace tenon::test
