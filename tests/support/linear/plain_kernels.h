// An attention kernel in plain loops. It shows the least that one must do, and that an executor
// composes with any: phases are more than needed.
#pragma once

#include <tenon/attention.h>
#include <tenon/extensions/attention_chunks.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/linear/plain_linear.h"

namespace tenon::test {

// f32 caches only. Three phases: store K, store V, attend.
class PlainAttention final : public AttentionKernel {
 public:
  PlainAttention() {
    chunks_.self = this;
    chunks_.set = [](void* self, std::span<const GroupId> groups) noexcept {
      static_cast<PlainAttention*>(self)->chunked_.assign(groups.begin(), groups.end());
    };
  }
  const AttentionChunks& chunks() const { return chunks_; }

  Status bind(const AttentionBinding& binding) noexcept override {
    for (const GroupId group : binding.groups) {
      if (binding.storage[group].dtype != DType::f32) {
        return Status::error(StatusCode::unsupported, "plain attention keeps f32 only");
      }
    }
    binding_ = binding;
    scores_.assign(binding.slices, std::vector<float>(binding.model->context_tokens));
    return {};
  }
  uint64_t plan_bytes(GroupId) const noexcept override { return sizeof(AttentionPlan); }
  uint64_t workspace_bytes(GroupId) const noexcept override { return 0; }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    if (!plan.batch->tree_parents.empty()) {
      return Status::error(StatusCode::unsupported, "plain attention follows chains only");
    }
    std::memcpy(plan.plan, &plan, sizeof(plan));
    out = {.phases = 3, .plan_bytes = sizeof(plan)};
    return {};
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    const LayerShape& layer = binding_.model->layers[call.layer];
    const KvGroup& group = binding_.model->groups[layer.group];
    const KvLayerStorage& storage = binding_.storage[layer.group].layers[layer.index_in_group];
    const AttentionPlan& plan = *static_cast<const AttentionPlan*>(call.plan);
    for (const uint32_t index : plan.sequences) {
      const Rows rows{*plan.batch, plan.batch->sequences[index],
                      plan.batch->groups[layer.group].slots,
                      plan.batch->groups[layer.group].tables[index].blocks,
                      binding_.storage[layer.group].block_tokens};
      const Share mine = share_of(phase < 2 ? rows.sequence.rows : layer.query_heads, slice);
      if (phase == 0 && call.k != nullptr) {
        store(storage.k, group.kv_heads, group.k_dim, rows, call.k, mine);
      }
      if (phase == 1 && call.v != nullptr) {
        store(storage.v, group.kv_heads, group.v_dim, rows, call.v, mine);
      }
      if (phase == 2) attend(call, rows, mine, scores_[slice.index].data());
    }
    return {};
  }
  std::string_view numerics() const noexcept override { return "plain"; }

 private:
  // One sequence's part of the batch.
  struct Rows {
    const BatchView& batch;
    const BatchSequence& sequence;
    std::span<const uint32_t> slots;
    std::span<const BlockId> blocks;
    uint32_t block_tokens;

    float* at(const KvPlane& plane, uint32_t p, uint32_t head) const {
      const auto block = static_cast<uint64_t>(blocks[p / block_tokens]);
      return reinterpret_cast<float*>(plane.base + block * plane.block_bytes +
                                      head * plane.head_bytes +
                                      p % block_tokens * plane.token_bytes);
    }
  };

  static void store(const KvPlane& plane, uint32_t heads, uint32_t dim, const Rows& rows,
                    const void* values, Share mine) {
    for (uint32_t i = mine.first; i < mine.last; ++i) {
      const uint64_t row = rows.sequence.first_row + i;
      for (uint32_t h = 0; h < heads; ++h) {
        std::memcpy(rows.at(plane, rows.slots[row], h),
                    static_cast<const float*>(values) + (row * heads + h) * dim,
                    dim * sizeof(float));
      }
    }
  }
  void attend(const AttentionCall& call, const Rows& rows, Share heads, float* scores) const {
    const LayerShape& layer = binding_.model->layers[call.layer];
    const KvGroup& group = binding_.model->groups[layer.group];
    const BatchSequence& sequence = rows.sequence;
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      for (uint32_t h = heads.first; h < heads.last; ++h) {
        const uint64_t item = row * layer.query_heads + h;
        const float sink = layer.sinks == nullptr ? -INFINITY : layer.sinks[h];
        attend_head(call.layer, rows, h, h / (layer.query_heads / group.kv_heads), rows.slots[row],
                    rows.slots[rows.batch.sees_to.empty() ? row : rows.batch.sees_to[row]], sink,
                    static_cast<const float*>(call.q) + item * group.k_dim,
                    static_cast<float*>(call.out) + item * group.v_dim, scores);
      }
    }
  }
  void attend_head(LayerId id, const Rows& rows, uint32_t head, uint32_t kv_head, uint32_t last,
                   uint32_t seen, float sink, const float* q, float* out, float* scores) const {
    const LayerShape& layer = binding_.model->layers[id];
    const KvGroup& group = binding_.model->groups[layer.group];
    const KvLayerStorage& storage = binding_.storage[layer.group].layers[layer.index_in_group];
    const bool chunks = std::ranges::find(chunked_, layer.group) != chunked_.end();
    const uint32_t first = chunks ? first_of_chunk(last, group.window_tokens)
                                  : first_visible(last, group.window_tokens);
    float largest = sink;
    for (uint32_t p = first; p <= seen; ++p) {
      const float* k = rows.at(storage.k, p, kv_head);
      float sum = 0;
      for (uint32_t i = 0; i < group.k_dim; ++i) sum += q[i] * k[i];
      sum *= layer.scale;
      if (layer.soft_cap > 0) sum = layer.soft_cap * std::tanh(sum / layer.soft_cap);
      if (layer.alibi_slopes != nullptr) {
        sum -= layer.alibi_slopes[head] * static_cast<float>(last - p);
      }
      scores[p] = sum;
      largest = std::fmax(largest, sum);
    }
    float total = std::exp(sink - largest);
    for (uint32_t p = first; p <= seen; ++p) total += scores[p] = std::exp(scores[p] - largest);
    for (uint32_t i = 0; i < group.v_dim; ++i) {
      float sum = 0;
      for (uint32_t p = first; p <= seen; ++p) {
        sum += scores[p] * rows.at(storage.v, p, kv_head)[i];
      }
      out[i] = sum / total;
    }
  }

  AttentionBinding binding_;
  AttentionChunks chunks_;
  std::vector<GroupId> chunked_;
  std::vector<std::vector<float>> scores_;
};

}  // namespace tenon::test
