#include "core/exec/ref/ref_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tenon::ref {
namespace {

// One plane of a layer, seen through one sequence's block table.
struct Cached {
  const KvPlane& plane;
  std::span<const BlockId> table;
  uint32_t block_tokens;

  float* at(uint32_t position, uint32_t head) const {
    const auto block = static_cast<uint64_t>(table[position / block_tokens]);
    return reinterpret_cast<float*>(plane.base + block * plane.block_bytes +
                                    head * plane.head_bytes +
                                    (position % block_tokens) * plane.token_bytes);
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
  std::vector<double> weights;
  for (uint32_t p = first; p <= last; ++p) {
    weights.push_back(score(layer, q, k.at(p, kv_head), group.k_dim));
  }
  softmax(weights);
  for (uint32_t i = 0; i < group.v_dim; ++i) {
    double sum = 0;
    for (uint32_t p = first; p <= last; ++p) sum += weights[p - first] * v.at(p, kv_head)[i];
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
    const Cached k{storage.layers[call.layer].k, table, block_tokens};
    const Cached v{storage.layers[call.layer].v, table, block_tokens};
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      for (uint32_t head = 0; head < group.kv_heads; ++head) {
        const uint64_t item = row * group.kv_heads + head;
        std::memcpy(k.at(batch.slots[row], head), call.k + item * group.k_dim,
                    group.k_dim * sizeof(float));
        std::memcpy(v.at(batch.slots[row], head), call.v + item * group.v_dim,
                    group.v_dim * sizeof(float));
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
    const Cached k{storage.layers[call.layer].k, table, storage.block_tokens[layer.group]};
    const Cached v{storage.layers[call.layer].v, table, storage.block_tokens[layer.group]};
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
