#include "core/exec/ref/ref_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/exec/kv_row.h"

namespace tenon::ref {
namespace {

// One plane of a layer, seen through one sequence's block table.
struct Cached {
  const KvPlane& plane;
  std::span<const BlockId> table;
  uint32_t block_tokens;
  DType dtype;

  std::byte* at(uint32_t entry, uint32_t head) const {
    const auto block = static_cast<uint64_t>(table[entry / block_tokens]);
    return plane.base + block * plane.block_bytes + head * plane.head_bytes +
           (entry % block_tokens) * plane.token_bytes;
  }
  void write(uint32_t entry, uint32_t head, std::span<const float> row) const {
    write_kv_row(dtype, row, at(entry, head));
  }
  std::vector<float> read(uint32_t entry, uint32_t head, uint32_t dim) const {
    std::vector<float> row(dim);
    read_kv_row(dtype, at(entry, head), row);
    return row;
  }
};

// K and V of one layer and sequence.
struct Cache {
  const KvGroup& group;
  Cached k;
  Cached v;

  // A row of V may be the beginning of the row of K.
  std::vector<float> value(uint32_t entry, uint32_t head) const {
    if (!group.v_inside_k()) return v.read(entry, head, group.v_dim);
    std::vector<float> row = k.read(entry, head, group.k_dim);
    row.resize(group.v_dim);
    return row;
  }
};
Cache cache_of(const Attention& step, LayerId id, size_t sequence) {
  const LayerShape& layer = step.shape.layers[id];
  const KvGroupStorage& storage = step.storage[layer.group];
  const KvLayerStorage& planes = storage.layers[layer.index_in_group];
  const std::span<const BlockId> table = step.batch.groups[layer.group].tables[sequence].blocks;
  return {step.shape.groups[layer.group],
          {planes.k, table, storage.block_tokens, storage.dtype},
          {planes.v, table, storage.block_tokens, storage.dtype}};
}

// The entries that a row sees, in the order of their positions, and the row's own position.
struct Seen {
  std::vector<uint32_t> entries;
  uint32_t first_position = 0;  // of entries[0]
  uint32_t position = 0;
};
Seen seen_by(const Attention& step, GroupId group, const BatchSequence& sequence, uint32_t row) {
  const std::span<const uint32_t> slots = step.batch.groups[group].slots;
  const std::span<const int32_t> parents = step.batch.tree_parents;
  std::vector<uint32_t> path;  // the row's own slot, then those that lead to it, last first
  for (auto at = static_cast<int64_t>(row); at >= sequence.first_row;) {
    path.push_back(slots[static_cast<size_t>(at)]);
    at = parents.empty() ? at - 1 : parents[static_cast<size_t>(at)];
  }
  Seen seen;
  const uint32_t before = slots[sequence.first_row];
  for (uint32_t entry = 0; entry < before; ++entry) seen.entries.push_back(entry);
  seen.entries.insert(seen.entries.end(), path.rbegin(), path.rend());
  seen.position = static_cast<uint32_t>(seen.entries.size()) - 1;
  seen.first_position = first_visible(seen.position, step.shape.groups[group].window_tokens);
  const uint32_t last = step.batch.sees_to.empty() ? row : step.batch.sees_to[row];
  for (uint32_t behind = row + 1; behind <= last; ++behind) seen.entries.push_back(slots[behind]);
  seen.entries.erase(seen.entries.begin(), seen.entries.begin() + seen.first_position);
  return seen;
}

// The softmax's weights in place. The largest score is finite: a row always sees itself.
void softmax(std::vector<double>& scores, const float* sink) {
  double largest = *std::max_element(scores.begin(), scores.end());
  if (sink != nullptr) largest = std::max<double>(largest, *sink);
  double sum = sink != nullptr ? std::exp(*sink - largest) : 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

double score(const LayerShape& layer, const float* q, std::span<const float> k) {
  double sum = 0;
  for (size_t i = 0; i < k.size(); ++i) sum += double{q[i]} * k[i];
  sum *= layer.scale;
  return layer.soft_cap > 0 ? layer.soft_cap * std::tanh(sum / layer.soft_cap) : sum;
}

// One query head of one row.
void attend_head(const LayerShape& layer, const Cache& cache, const Seen& seen, uint32_t head,
                 const float* q, float* out) {
  const KvGroup& group = cache.group;
  const uint32_t kv_head = head / (layer.query_heads / group.kv_heads);
  const float slope = layer.alibi_slopes != nullptr ? layer.alibi_slopes[head] : 0;
  std::vector<double> weights;
  std::vector<std::vector<float>> values;
  for (const uint32_t entry : seen.entries) {
    const auto key = static_cast<double>(seen.first_position + weights.size());
    const double bias = slope * (key - seen.position);
    weights.push_back(score(layer, q, cache.k.read(entry, kv_head, group.k_dim)) + bias);
    values.push_back(cache.value(entry, kv_head));
  }
  softmax(weights, layer.sinks != nullptr ? &layer.sinks[head] : nullptr);
  for (uint32_t i = 0; i < group.v_dim; ++i) {
    double sum = 0;
    for (size_t p = 0; p < weights.size(); ++p) sum += weights[p] * values[p][i];
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace

void Attention::store(LayerId layer, const float* k, const float* v) const {
  const GroupId group = shape.layers[layer].group;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const BatchSequence& sequence = batch.sequences[s];
    const Cache cache = cache_of(*this, layer, s);
    const auto [k_dim, v_dim] = std::pair(cache.group.k_dim, cache.group.v_dim);
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const uint32_t slot = batch.groups[group].slots[row];
      for (uint32_t head = 0; head < cache.group.kv_heads; ++head) {
        const uint64_t item = row * cache.group.kv_heads + head;
        cache.k.write(slot, head, {k + item * k_dim, k_dim});
        if (!cache.group.v_inside_k()) cache.v.write(slot, head, {v + item * v_dim, v_dim});
      }
    }
  }
}

void Attention::attend(LayerId id, const float* q, float* out) const {
  const LayerShape& layer = shape.layers[id];
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const BatchSequence& sequence = batch.sequences[s];
    const Cache cache = cache_of(*this, id, s);
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const Seen seen = seen_by(*this, layer.group, sequence, row);
      for (uint32_t head = 0; head < layer.query_heads; ++head) {
        const uint64_t item = uint64_t{row} * layer.query_heads + head;
        attend_head(layer, cache, seen, head, q + item * cache.group.k_dim,
                    out + item * cache.group.v_dim);
      }
    }
  }
}

}  // namespace tenon::ref
