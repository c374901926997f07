// An attention kernel in plain loops. It shows the least that one must do, and that an executor
// composes with any: phases are more than needed.
#pragma once

#include <tenon/attention.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/support/plain_linear.h"

namespace tenon::test {

// f32 caches only. Three phases: store K, store V, attend.
class PlainAttention final : public AttentionKernel {
 public:
  Status bind(const ModelShape& model, const KvStorage& storage,
              const AttentionLimits& limits) noexcept override {
    if (storage.dtype != DType::f32) {
      return Status::error(StatusCode::unsupported, "plain attention keeps f32 only");
    }
    model_ = &model;
    storage_ = &storage;
    scores_.assign(limits.slices, std::vector<float>(limits.context_tokens));
    return {};
  }
  uint64_t workspace_bytes() const noexcept override { return sizeof(uint64_t); }
  uint32_t phases() const noexcept override { return 3; }
  Status plan(GroupId, const BatchView& batch, void* workspace) noexcept override {
    std::memcpy(workspace, &batch.step_id, sizeof(uint64_t));
    batch_ = &batch;
    return {};
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    const LayerShape& layer = model_->layer[call.layer];
    const KvGroup& group = model_->groups[layer.group];
    const KvLayerStorage& storage = storage_->layers[call.layer];
    for (const BatchSequence& sequence : batch_->sequences) {
      const Share mine = share_of(phase < 2 ? sequence.rows : layer.query_heads, slice);
      if (phase == 0 && call.k != nullptr) {
        store(storage.k, group.kv_heads, group.k_dim, sequence, layer.group, call.k, mine);
      }
      if (phase == 1 && call.v != nullptr) {
        store(storage.v, group.kv_heads, group.v_dim, sequence, layer.group, call.v, mine);
      }
      if (phase == 2) attend(call, sequence, mine, scores_[slice.index].data());
    }
    return {};
  }
  std::string_view numerics() const noexcept override { return "plain"; }

 private:
  float* at(const KvPlane& plane, const BatchSequence& sequence, GroupId group, uint32_t p,
            uint32_t head) const {
    const uint32_t block_tokens = storage_->block_tokens[group];
    const auto block = static_cast<uint64_t>(sequence.tables[group].blocks[p / block_tokens]);
    return reinterpret_cast<float*>(plane.base + block * plane.block_bytes +
                                    head * plane.head_bytes + p % block_tokens * plane.token_bytes);
  }
  void store(const KvPlane& plane, uint32_t heads, uint32_t dim, const BatchSequence& sequence,
             GroupId group, const float* values, Share mine) const {
    for (uint32_t i = mine.first; i < mine.last; ++i) {
      const uint64_t row = sequence.first_row + i;
      for (uint32_t h = 0; h < heads; ++h) {
        std::memcpy(at(plane, sequence, group, batch_->slots[row], h),
                    values + (row * heads + h) * dim, dim * sizeof(float));
      }
    }
  }
  void attend(const AttentionCall& call, const BatchSequence& sequence, Share heads,
              float* scores) const {
    const LayerShape& layer = model_->layer[call.layer];
    const KvGroup& group = model_->groups[layer.group];
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const uint32_t last = batch_->slots[row];
      const uint32_t window = layer.window_tokens;
      const uint32_t first = window != 0 && last >= window ? last - window + 1 : 0;
      for (uint32_t h = heads.first; h < heads.last; ++h) {
        const uint64_t item = row * layer.query_heads + h;
        attend_head(call, sequence, h / (layer.query_heads / group.kv_heads), first, last,
                    call.q + item * group.k_dim, call.out + item * group.v_dim, scores);
      }
    }
  }
  void attend_head(const AttentionCall& call, const BatchSequence& sequence, uint32_t kv_head,
                   uint32_t first, uint32_t last, const float* q, float* out, float* scores) const {
    const LayerShape& layer = model_->layer[call.layer];
    const KvGroup& group = model_->groups[layer.group];
    const KvLayerStorage& storage = storage_->layers[call.layer];
    float largest = -INFINITY;
    for (uint32_t p = first; p <= last; ++p) {
      const float* k = at(storage.k, sequence, layer.group, p, kv_head);
      float sum = 0;
      for (uint32_t i = 0; i < group.k_dim; ++i) sum += q[i] * k[i];
      sum *= layer.scale;
      if (layer.soft_cap > 0) sum = layer.soft_cap * std::tanh(sum / layer.soft_cap);
      scores[p] = sum;
      largest = std::fmax(largest, sum);
    }
    float total = 0;
    for (uint32_t p = first; p <= last; ++p) total += scores[p] = std::exp(scores[p] - largest);
    for (uint32_t i = 0; i < group.v_dim; ++i) {
      float sum = 0;
      for (uint32_t p = first; p <= last; ++p) {
        sum += scores[p] * at(storage.v, sequence, layer.group, p, kv_head)[i];
      }
      out[i] = sum / total;
    }
  }

  const ModelShape* model_ = nullptr;
  const KvStorage* storage_ = nullptr;
  const BatchView* batch_ = nullptr;
  std::vector<std::vector<float>> scores_;
};

}  // namespace tenon::test
