// A linear kernel in plain loops. It shows the least that one must do, and that an executor
// composes with any: columns are split unevenly, `prepare` keeps rows in reverse order.
#pragma once

#include <tenon/linear.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/model/tensors/weight_rows.h"

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

// Packs any readable format as f32. Serves any number of executors, in turn.
class PlainLinear final : public LinearKernel {
 public:
  Status bind(const LinearLimits&) noexcept override { return {}; }
  EpilogueMask epilogues() const noexcept override {
    return epilogue_bit(Epilogue::store) | epilogue_bit(Epilogue::add) |
           epilogue_bit(Epilogue::silu_mul);
  }
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
  Status gather(const GatherCall& call, Slice slice) noexcept override {
    const Share mine = share_of(call.rows.size(), slice);
    for (uint64_t i = mine.first; i < mine.last; ++i) {
      std::memcpy(static_cast<float*>(call.out) + i * call.out_stride,
                  static_cast<const float*>(call.packed) + uint64_t{call.rows[i]} * call.k_in,
                  call.k_in * sizeof(float));
    }
    return {};
  }

  Preparation preparation(const WeightView& weight) const noexcept override {
    return {0, weight.k_in};
  }
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept override {
    return uint64_t{rows} * preparation.k_in * sizeof(float);
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    const uint64_t width = call.preparation.k_in;
    const Share mine = share_of(call.rows, slice);
    for (uint32_t row = mine.first; row < mine.last; ++row) {
      const uint64_t from = call.x_rows.empty() ? row : call.x_rows[row];
      std::memcpy(static_cast<float*>(call.prepared) + (call.rows - 1 - row) * width,
                  static_cast<const float*>(call.x) + from * call.x_stride, width * sizeof(float));
    }
    return {};
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue) noexcept override {
    for (const LinearJob& job : jobs) {
      if ((epilogues() & epilogue_bit(job.epilogue)) == 0) {
        return Status::error(StatusCode::unsupported, "plain loops have no such epilogue");
      }
    }
    for (const LinearJob& job : jobs) {
      const Share mine{share_of(job.n_out, {range.first, range.count}).first,
                       share_of(job.n_out, {range.last - 1, range.count}).last};
      for (uint32_t i = 0; i < job.row_count(); ++i) run_row(job, i, mine);
    }
    return {};
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
  static void run_row(const LinearJob& job, uint32_t i, Share columns) {
    const uint32_t x_row = job.rows.empty() ? i : job.rows[i];
    const float* x =
        static_cast<const float*>(job.prepared) + uint64_t{job.x_rows - 1 - x_row} * job.k_in;
    const uint64_t y_row = job.y_rows.empty() ? i : job.y_rows[i];
    const float scale = job.row_scale == nullptr ? 1.0f : job.row_scale[i];
    for (uint32_t n = columns.first; n < columns.last; ++n) {
      float p = scale * dot(job.packed, x, job.k_in, n);
      if (job.bias != nullptr) p += job.bias[n];
      float& y = static_cast<float*>(job.y)[y_row * job.y_stride + n];
      if (job.epilogue == Epilogue::store) y = p;
      if (job.epilogue == Epilogue::add) y += p;
      if (job.epilogue == Epilogue::silu_mul) {
        y = p / (1.0f + std::exp(-p)) * (scale * dot(job.packed_second, x, job.k_in, n));
      }
    }
  }
  static float dot(const void* packed, const float* x, uint32_t k_in, uint32_t n) {
    const float* w = static_cast<const float*>(packed) + uint64_t{n} * k_in;
    float sum = 0;
    for (uint32_t k = 0; k < k_in; ++k) sum += x[k] * w[k];
    return sum;
  }
};

// Another kernel in all it does; tests change some of it.
class ForwardingLinear : public LinearKernel {
 public:
  explicit ForwardingLinear(LinearKernel& to) : to_(to) {}
  Status bind(const LinearLimits& limits) noexcept override { return to_.bind(limits); }
  EpilogueMask epilogues() const noexcept override { return to_.epilogues(); }
  Status accepts(const WeightView& weight) const noexcept override { return to_.accepts(weight); }
  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    return to_.packed_bytes(weight);
  }
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    return to_.pack(weight, packed, slice);
  }
  Status gather(const GatherCall& call, Slice slice) noexcept override {
    return to_.gather(call, slice);
  }
  Preparation preparation(const WeightView& weight) const noexcept override {
    return to_.preparation(weight);
  }
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept override {
    return to_.prepared_bytes(preparation, rows);
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    return to_.prepare(call, slice);
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    return to_.run(jobs, range, queue);
  }
  std::string_view numerics() const noexcept override { return to_.numerics(); }

 protected:
  ~ForwardingLinear() = default;
  LinearKernel& to_;
};

}  // namespace tenon::test
