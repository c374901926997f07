#include "core/exec/index_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/base/result.h"
#include "core/exec/kv_row.h"

namespace tenon {

std::byte* KeyRows::at(const BatchView& batch, uint32_t index, uint32_t sequence,
                       uint32_t entry) const {
  const KvPlane& plane = storage_->layers[index].k;
  const std::span<const BlockId> table = batch.groups[group_].tables[sequence].blocks;
  const auto block = static_cast<uint64_t>(table[entry / storage_->block_tokens]);
  return plane.base + block * plane.block_bytes +
         (entry % storage_->block_tokens) * plane.token_bytes;
}

void KeyRows::write(const BatchView& batch, uint32_t index, uint32_t sequence, uint32_t entry,
                    std::span<const float> row) const {
  write_kv_row(storage_->dtype, row, at(batch, index, sequence, entry));
}

const float* KeyRows::read(const BatchView& batch, uint32_t index, uint32_t sequence,
                           uint32_t entry, std::span<float> row) const {
  const std::byte* from = at(batch, index, sequence, entry);
  if (storage_->dtype == DType::f32) return reinterpret_cast<const float*>(from);
  read_kv_row(storage_->dtype, from, row);
  return row.data();
}

Status IndexedLayers::load(const ModelPlan& plan, const ModelShape& shape) {
  *this = {};
  key_index.resize(plan.layers.size());
  uint32_t with_keys = 0, without = 0;
  for (uint32_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    if (!layer.attends()) continue;
    if (!layer.index) {
      ++without;
      continue;
    }
    if (layer.attention.output_gate) {
      return unsupported("layer " + std::to_string(i) + " has an index and a gate after attention");
    }
    const bool alike =
        most == 0 || (most == layer.index.chosen && shape.layers[i].group == attended);
    if (!alike || layer.attention.kv_heads != 1 || !layer.latent) {
      return unsupported("layer " + std::to_string(i) +
                         " has an index; indices run with latent attention alone, which is alike "
                         "in all layers");
    }
    if (layer.index.heads == 0 && with_keys == 0) {
      return unsupported("layer " + std::to_string(i) +
                         " shares a choice of positions, but no layer before it makes one");
    }
    most = layer.index.chosen;
    attended = shape.layers[i].group;
    if (layer.index.heads > 0) key_index[i] = with_keys++;
  }
  if (most == 0) return {};
  if (without > 0) {
    return unsupported(
        "some layers attend by an index, others to all that they see; this runs "
        "with one of the two in all layers");
  }
  for (GroupId group = 0; group < shape.group_count; ++group) {
    if (!keeps_index_keys(shape.groups[group])) continue;
    if (keys != kNoGroup) return unsupported("indices of several widths; this runs with one");
    keys = group;
  }
  return {};
}

void RowsToChoose::begin(const BatchView& batch, GroupId group, uint32_t most) {
  rows_.clear();
  paths_.clear();
  has_.assign(batch.sequences.size(), false);
  depths_.assign(batch.rows, 0);
  sequence_of_.assign(batch.rows, 0);
  for (uint32_t sequence = 0; sequence < batch.sequences.size(); ++sequence) {
    add_rows(batch, batch.groups[group].slots, sequence, most);
  }
}

// Siblings of a tree see as many entries, each along a path of its own.
void RowsToChoose::add_rows(const BatchView& batch, std::span<const uint32_t> slots,
                            uint32_t sequence, uint32_t most) {
  const BatchSequence& of = batch.sequences[sequence];
  if (of.rows == 0) return;
  const std::span<const int32_t> parents = batch.tree_parents;
  const uint32_t before = slots[of.first_row];
  const auto parent_of = [&](int64_t row) -> int64_t {
    return parents.empty() ? row - 1 : parents[static_cast<size_t>(row)];
  };
  for (uint32_t row = of.first_row; row < of.first_row + of.rows; ++row) {
    const int64_t parent = parent_of(row);
    const bool follows_cache = parent < of.first_row;
    depths_[row] = 1 + (follows_cache ? 0 : depths_[static_cast<size_t>(parent)]);
    sequence_of_[row] = sequence;
    if (before + depths_[row] > most) has_[sequence] = true;
  }
  if (!has_[sequence]) return;
  for (uint32_t row = of.first_row; row < of.first_row + of.rows; ++row) {
    const uint32_t depth = depths_[row];
    rows_.push_back({row, sequence, before, before + depth, paths_.size()});
    paths_.resize(paths_.size() + depth);
    size_t to = paths_.size();
    for (int64_t at = row; at >= of.first_row; at = parent_of(at)) {
      paths_[--to] = slots[static_cast<size_t>(at)];
    }
  }
}

void choose_highest(std::span<const float> scores, uint32_t most, std::span<uint32_t> order) {
  std::iota(order.begin(), order.end(), 0u);
  if (most >= order.size()) return;
  const auto value = [&](uint32_t place) {
    const float score = scores[place];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  const auto comes_first = [&](uint32_t a, uint32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  const auto end = order.begin() + most;
  std::nth_element(order.begin(), end, order.end(), comes_first);
  std::sort(order.begin(), end);
}

}  // namespace tenon
