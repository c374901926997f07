// An index of positions (IndexPlan) in host memory: its keys, which rows of a step it chooses for,
// and the choice itself.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/plan/model_plan.h"

namespace tenon {

// Rows of one KV head in a group's storages, by entries of a sequence.
class KeyRows {
 public:
  KeyRows() = default;
  KeyRows(GroupId group, const KvGroupStorage& storage) : group_(group), storage_(&storage) {}

  // In storage `index` of the group.
  void write(const BatchView& batch, uint32_t index, uint32_t sequence, uint32_t entry,
             std::span<const float> row) const;
  // Where the cache has f32, `row` is left alone and the answer points into it.
  const float* read(const BatchView& batch, uint32_t index, uint32_t sequence, uint32_t entry,
                    std::span<float> row) const;

 private:
  std::byte* at(const BatchView& batch, uint32_t index, uint32_t sequence, uint32_t entry) const;

  GroupId group_ = kNoGroup;
  const KvGroupStorage* storage_ = nullptr;
};

// Whether a group keeps the keys of an index: rows of K without any V, which no layer names.
inline bool keeps_index_keys(const KvGroup& group) {
  return group.kind == KvKind::latent && group.v_dim == 0;
}

// The layers of a plan that an index chooses for, and where their keys are.
struct IndexedLayers {
  uint32_t most = 0;  // entries that a row attends to; 0: the plan has no index
  GroupId keys = kNoGroup;
  GroupId attended = kNoGroup;      // the group of the layers that attend
  std::vector<uint32_t> key_index;  // [layers] the storage of those with heads of their own

  // Errors: unsupported (layers that attend by no index next to some that do, more heads of K than
  // one, or a choice to share where none was made).
  Status load(const ModelPlan& plan, const ModelShape& shape);
};

// What a row sees: entries 0 … `before` - 1 and those of the step's rows that lead to it, which
// are as many and end with its own.
struct SeeingRow {
  uint32_t row = 0;
  uint32_t sequence = 0;
  uint32_t before = 0;
  uint32_t seen = 0;
  size_t path = 0;  // in RowsToChoose::paths
};

// The rows of a step that attend to a choice: those of each sequence that has a row which sees more
// entries than are chosen. Rows of other sequences see what there is.
class RowsToChoose {
 public:
  void begin(const BatchView& batch, GroupId group, uint32_t most);
  std::span<const SeeingRow> rows() const { return rows_; }
  bool has_sequence(uint32_t sequence) const { return has_[sequence]; }
  uint32_t sequence_of(uint32_t row) const { return sequence_of_[row]; }
  // The nth of a row's entries, by rising position.
  uint32_t entry(const SeeingRow& row, uint32_t n) const {
    return n < row.before ? n : paths_[row.path + n - row.before];
  }

 private:
  void add_rows(const BatchView& batch, std::span<const uint32_t> slots, uint32_t sequence,
                uint32_t most);

  std::vector<SeeingRow> rows_;
  std::vector<uint32_t> paths_;                 // entries
  std::vector<uint32_t> depths_, sequence_of_;  // [rows of the step]
  std::vector<bool> has_;                       // [sequences]
};

// Puts the places of the `most` highest scores at the beginning of `order`, rising; of equal scores
// the first ones count, and NaN counts as the lowest. `order` is as long as `scores`. The choice is
// one of values and places alone, so that whoever computes equal scores chooses alike.
void choose_highest(std::span<const float> scores, uint32_t most, std::span<uint32_t> order);

}  // namespace tenon
