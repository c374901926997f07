#include "core/exec/ref/ref_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

  std::byte* at(uint32_t position, uint32_t head) const {
    const auto block = static_cast<uint64_t>(table[position / block_tokens]);
    return plane.base + block * plane.block_bytes + head * plane.head_bytes +
           (position % block_tokens) * plane.token_bytes;
  }
  void write(uint32_t position, uint32_t head, std::span<const float> row) const {
    write_kv_row(dtype, row, at(position, head));
  }
  // Rows first … last of one head, each of `dim` elements.
  std::vector<float> read(uint32_t first, uint32_t last, uint32_t head, uint32_t dim) const {
    std::vector<float> rows(size_t{last - first + 1} * dim);
    for (uint32_t p = first; p <= last; ++p) {
      read_kv_row(dtype, at(p, head), std::span(rows).subspan(size_t{p - first} * dim, dim));
    }
    return rows;
  }
};

// Softmax of `scores` in place. The largest is finite: a row always sees itself.
void softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

double score(const LayerShape& layer, const float* q, const float* k, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; ++i) sum += double{q[i]} * k[i];
  sum *= layer.scale;
  return layer.soft_cap > 0 ? layer.soft_cap * std::tanh(sum / layer.soft_cap) : sum;
}

// One query head of one row, over positions first … last.
void attend_head(const LayerShape& layer, const KvGroup& group, const Cached& k, const Cached& v,
                 uint32_t kv_head, uint32_t first, uint32_t last, const float* q, float* out) {
  const std::vector<float> k_rows = k.read(first, last, kv_head, group.k_dim);
  const std::vector<float> v_rows = v.read(first, last, kv_head, group.v_dim);
  std::vector<double> weights;
  for (size_t at = 0; at < k_rows.size(); at += group.k_dim) {
    weights.push_back(score(layer, q, &k_rows[at], group.k_dim));
  }
  softmax(weights);
  for (uint32_t i = 0; i < group.v_dim; ++i) {
    double sum = 0;
    for (size_t p = 0; p < weights.size(); ++p) sum += weights[p] * v_rows[p * group.v_dim + i];
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace

void store_kv(const ModelShape& shape, const KvStorage& storage, const BatchView& batch,
              const AttentionCall& call) {
  const GroupId group_id = shape.layer[call.layer].group;
  const KvGroup& group = shape.groups[group_id];
  const uint32_t block_tokens = storage.block_tokens[group_id];
  for (const BatchSequence& sequence : batch.sequences) {
    const std::span<const BlockId> table = sequence.tables[group_id].blocks;
    const Cached k{storage.layers[call.layer].k, table, block_tokens, storage.dtype};
    const Cached v{storage.layers[call.layer].v, table, block_tokens, storage.dtype};
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      for (uint32_t head = 0; head < group.kv_heads; ++head) {
        const uint64_t item = row * group.kv_heads + head;
        k.write(batch.slots[row], head, {call.k + item * group.k_dim, group.k_dim});
        v.write(batch.slots[row], head, {call.v + item * group.v_dim, group.v_dim});
      }
    }
  }
}

void attend(const ModelShape& shape, const KvStorage& storage, const BatchView& batch,
            const AttentionCall& call) {
  const LayerShape& layer = shape.layer[call.layer];
  const KvGroup& group = shape.groups[layer.group];
  const uint32_t heads_a_group = layer.query_heads / group.kv_heads;
  for (const BatchSequence& sequence : batch.sequences) {
    const std::span<const BlockId> table = sequence.tables[layer.group].blocks;
    const uint32_t block_tokens = storage.block_tokens[layer.group];
    const Cached k{storage.layers[call.layer].k, table, block_tokens, storage.dtype};
    const Cached v{storage.layers[call.layer].v, table, block_tokens, storage.dtype};
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const uint32_t last = batch.slots[row];
      const uint32_t window = layer.window_tokens;
      const uint32_t first = window != 0 && last >= window ? last - window + 1 : 0;
      for (uint32_t head = 0; head < layer.query_heads; ++head) {
        const uint64_t item = row * layer.query_heads + head;
        attend_head(layer, group, k, v, head / heads_a_group, first, last,
                    call.q + item * group.k_dim, call.out + item * group.v_dim);
      }
    }
  }
}

}  // namespace tenon::ref
