// Kernels in plain loops. They show the least that a kernel must do, and that an executor composes
// with any: columns and heads are split unevenly, `prepare` keeps rows in reverse order, phases
// are more than needed.
#pragma once

#include <tenon/attention.h>
#include <tenon/linear.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/model/weight_rows.h"

namespace tenon::test {

// [first, last) of `count` items for one slice; sizes differ by one at most.
struct Share {
  uint32_t first;
  uint32_t last;
};
inline Share share_of(uint64_t count, Slice slice) {
  return {static_cast<uint32_t>(count * slice.index / slice.count),
          static_cast<uint32_t>(count * (slice.index + 1) / slice.count)};
}

// Packs any readable format as f32.
class PlainLinear final : public LinearKernel {
 public:
  Status accepts(const WeightView& weight) const noexcept override {
    return readable_by_rows(copy_of(weight));
  }
  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    return uint64_t{weight.n_out} * weight.k_in * sizeof(float);
  }
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    const Weight rows = copy_of(weight);
    const Share mine = share_of(weight.n_out, slice);
    for (uint32_t n = mine.first; n < mine.last; ++n) {
      read_row(rows, n, static_cast<float*>(packed) + uint64_t{n} * weight.k_in);
    }
    return {};
  }
  void unpack_row(const void* packed, uint32_t, uint32_t k_in, uint32_t row,
                  float* out) const noexcept override {
    std::memcpy(out, static_cast<const float*>(packed) + uint64_t{row} * k_in,
                k_in * sizeof(float));
  }

  uint64_t prepared_bytes(uint32_t rows, uint32_t k_in) const noexcept override {
    return uint64_t{rows} * k_in * sizeof(float);
  }
  void prepare(const float* x, uint64_t x_stride, uint32_t rows, uint32_t k_in, void* prepared,
               Slice slice) noexcept override {
    const Share mine = share_of(rows, slice);
    for (uint32_t row = mine.first; row < mine.last; ++row) {
      std::memcpy(static_cast<float*>(prepared) + uint64_t{rows - 1 - row} * k_in,
                  x + row * x_stride, k_in * sizeof(float));
    }
  }
  void run(std::span<const LinearJob> jobs, WorkRange range) noexcept override {
    for (const LinearJob& job : jobs) {
      const Share mine{share_of(job.n_out, {range.first, range.count}).first,
                       share_of(job.n_out, {range.last - 1, range.count}).last};
      const uint64_t rows = job.rows.empty() ? job.x_rows : job.rows.size();
      for (uint64_t i = 0; i < rows; ++i) {
        const uint64_t x_row = job.rows.empty() ? i : job.rows[i];
        const float* x =
            static_cast<const float*>(job.prepared) + (job.x_rows - 1 - x_row) * job.k_in;
        for (uint32_t n = mine.first; n < mine.last; ++n) {
          write(job, job.y + i * job.y_stride + n, x, n);
        }
      }
    }
  }
  std::string_view numerics() const noexcept override { return "plain"; }

 private:
  static Weight copy_of(const WeightView& view) {
    return {std::string(view.name),
            std::string(view.format),
            view.n_out,
            view.k_in,
            {view.parts.begin(), view.parts.end()},
            view.row_order};
  }
  static float dot(const void* packed, const float* x, uint32_t k_in, uint32_t n) {
    const float* w = static_cast<const float*>(packed) + uint64_t{n} * k_in;
    float sum = 0;
    for (uint32_t k = 0; k < k_in; ++k) sum += x[k] * w[k];
    return sum;
  }
  static void write(const LinearJob& job, float* y, const float* x, uint32_t n) {
    float sum = dot(job.packed, x, job.k_in, n);
    if (job.bias != nullptr) sum += job.bias[n];
    if (job.epilogue == Epilogue::store) *y = sum;
    if (job.epilogue == Epilogue::add) *y += sum;
    if (job.epilogue == Epilogue::silu_mul) {
      *y = sum / (1.0f + std::exp(-sum)) * dot(job.packed_second, x, job.k_in, n);
    }
  }
};

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
