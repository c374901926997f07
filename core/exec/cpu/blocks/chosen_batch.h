// Rows that attend to chosen entries, as attention kernels see them: each is a sequence of its own,
// in blocks of one token, whose table is the choice (<tenon/attention.h>).
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/index_rows.h"

namespace tenon {

class ChosenBatch {
 public:
  // Kernels are bound to a shape that has each layer a second time, in a further group whose
  // storages are those of `attended` token by token. Both arguments outlive this.
  void load(const ModelShape& shape, std::span<const KvGroupStorage> storage, GroupId attended);
  const ModelShape& shape() const { return shape_; }
  std::span<const KvGroupStorage> storage() const { return storage_; }
  GroupId group() const { return static_cast<GroupId>(groups_.size() - 1); }
  // The layer's double in that group.
  LayerId layer(LayerId layer) const { return shape_.layer_count / 2 + layer; }

  // `rows` are those to choose for, of which none attends to more than `most` entries. Tables hold
  // nothing yet.
  void begin(const BatchView& batch, std::span<const SeeingRow> rows, uint32_t most);
  // Each row is the sequence of its number.
  const BatchView& batch() const { return batch_; }
  // Of the nth row to choose for: as many places as it attends to.
  std::span<BlockId> table(size_t n) const {
    return std::span(blocks_).subspan(begins_[n], begins_[n + 1] - begins_[n]);
  }
  // Where an entry of a sequence is stored, as a block of one token.
  BlockId block_of(const BatchView& batch, uint32_t sequence, uint32_t entry) const;

 private:
  GroupId attended_ = kNoGroup;
  uint32_t block_tokens_ = 1;
  std::vector<KvGroup> groups_;
  std::vector<LayerShape> layers_;
  std::vector<KvLayerStorage> by_token_;
  std::vector<KvGroupStorage> storage_;
  ModelShape shape_;

  BatchView batch_;
  std::vector<BatchSequence> sequences_;     // [rows]
  std::vector<uint32_t> slots_, kv_tokens_;  // [rows]
  std::vector<KvTableView> tables_;          // [rows]
  std::vector<BatchGroup> batch_groups_;     // [groups_]
  mutable std::vector<BlockId> blocks_;      // all tables, which workers fill
  std::vector<size_t> begins_;               // [rows to choose for + 1] in blocks_
};

}  // namespace tenon
