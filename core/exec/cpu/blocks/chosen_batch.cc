#include "core/exec/cpu/blocks/chosen_batch.h"

#include <algorithm>

namespace tenon {

// The tokens of a block follow each other, since there is one head.
void ChosenBatch::load(const ModelShape& shape, std::span<const KvGroupStorage> storage,
                       GroupId attended) {
  attended_ = attended;
  block_tokens_ = storage[attended].block_tokens;
  groups_.assign(shape.groups, shape.groups + shape.group_count);
  groups_.push_back(groups_[attended]);
  layers_.assign(shape.layers, shape.layers + shape.layer_count);
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    LayerShape& twin = layers_.emplace_back(layers_[layer]);
    if (twin.group == attended) twin.group = group();
  }
  by_token_.assign(storage[attended].layers.begin(), storage[attended].layers.end());
  for (KvLayerStorage& layer : by_token_) {
    for (KvPlane* plane : {&layer.k, &layer.v}) {
      plane->block_bytes = plane->head_bytes = plane->token_bytes;
    }
  }
  storage_.assign(storage.begin(), storage.end());
  storage_.push_back({storage[attended].dtype, 1, by_token_});
  shape_ = shape;
  shape_.group_count = static_cast<uint32_t>(groups_.size());
  shape_.groups = groups_.data();
  shape_.layer_count = static_cast<uint32_t>(layers_.size());
  shape_.layers = layers_.data();
}

void ChosenBatch::begin(const BatchView& batch, std::span<const SeeingRow> rows, uint32_t most) {
  begins_.assign(1, 0);
  for (const SeeingRow& row : rows) begins_.push_back(begins_.back() + std::min(row.seen, most));
  blocks_.resize(begins_.back());
  sequences_.resize(batch.rows);
  slots_.assign(batch.rows, 0);
  kv_tokens_.assign(batch.rows, 0);
  tables_.assign(batch.rows, {});
  for (uint32_t row = 0; row < batch.rows; ++row) {
    sequences_[row] = {.seq = row, .first_row = row, .rows = 1};
  }
  for (size_t n = 0; n < rows.size(); ++n) {
    const std::span<const BlockId> own = table(n);
    const uint32_t row = rows[n].row;
    kv_tokens_[row] = static_cast<uint32_t>(own.size());
    slots_[row] = kv_tokens_[row] - 1;
    tables_[row].blocks = own;
  }
  batch_groups_.assign(groups_.size(), {});
  batch_groups_.back() = {slots_, kv_tokens_, tables_};
  batch_ = batch;
  batch_.tree_parents = {};
  batch_.sequences = sequences_;
  batch_.groups = batch_groups_;
  batch_.padded_sequences = batch.rows;
}

BlockId ChosenBatch::block_of(const BatchView& batch, uint32_t sequence, uint32_t entry) const {
  const std::span<const BlockId> table = batch.groups[attended_].tables[sequence].blocks;
  return static_cast<BlockId>(table[entry / block_tokens_] * static_cast<int64_t>(block_tokens_) +
                              entry % block_tokens_);
}

}  // namespace tenon
