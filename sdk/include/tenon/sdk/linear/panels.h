// What linear kernels over column panels share: how jobs are cut into ranges of columns, scratch
// memory a worker, and refusals.
//
// A panel is a fixed number of rows of W (columns of y) that lie side by side in the packed weight.
// Workers take whole panels, so that every sum over k is made by one worker.
#pragma once

#include <tenon/host.h>
#include <tenon/linear.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon::sdk {

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t panel_count(uint32_t n_out, uint32_t columns) noexcept {
  return (uint64_t{n_out} + columns - 1) / columns;
}

// Part `index` of `count` equal parts of `total`, as its first element.
constexpr uint64_t share_begin(uint64_t total, uint32_t index, uint32_t count) noexcept {
  return total / count * index + total % count * index / count;
}

// What sdk/linear/epilogue.h does with a finished sum.
inline constexpr EpilogueMask kPanelEpilogues =
    epilogue_bit(Epilogue::store) | epilogue_bit(Epilogue::add) | epilogue_bit(Epilogue::silu_mul);

struct PanelRange {
  uint32_t first = 0;
  uint32_t last = 0;
};
// This slice's share of `total` rows or panels.
constexpr PanelRange share_of(uint64_t total, Slice slice) noexcept {
  return {static_cast<uint32_t>(share_begin(total, slice.index, slice.count)),
          static_cast<uint32_t>(share_begin(total, slice.index + 1, slice.count))};
}

// The rows of a job that are multiplied.
inline uint32_t used_rows(const LinearJob& job) noexcept {
  const uint32_t all = job.row_count();
  return job.rows_used == nullptr || *job.rows_used > all ? all : *job.rows_used;
}

// Calls run_panels(job, panels) for the panels of each job in `range`; parts are equal in products
// of a weight and a row, over all jobs. A panel belongs to the part in which it begins.
template <typename RunPanels>
void for_each_share(std::span<const LinearJob> jobs, uint32_t panel_columns, WorkRange range,
                    RunPanels&& run_panels) {
  const auto cost_of = [&](const LinearJob& job) {
    const uint64_t matrices = job.epilogue == Epilogue::silu_mul ? 2 : 1;
    return panel_count(job.n_out, panel_columns) * job.k_in * matrices * used_rows(job);
  };
  uint64_t total = 0;
  for (const LinearJob& job : jobs) total += cost_of(job);
  const uint64_t begin = share_begin(total, range.first, range.count);
  const uint64_t end = share_begin(total, range.last, range.count);
  uint64_t base = 0;
  for (const LinearJob& job : jobs) {
    const uint64_t cost = cost_of(job);
    const uint64_t panels = panel_count(job.n_out, panel_columns);
    if (cost > 0 && base < end && base + cost > begin) {
      const uint64_t each = cost / panels;
      const uint64_t first = begin > base ? (begin - base + each - 1) / each : 0;
      const uint64_t last = end - base < cost ? (end - base + each - 1) / each : panels;
      if (first < last) {
        run_panels(job, PanelRange{static_cast<uint32_t>(first), static_cast<uint32_t>(last)});
      }
    }
    base += cost;
  }
}

// What every kernel over panels needs to know of its share of a job: panels [first_panel,
// last_panel). Kernels add their own forms of weights and activations.
struct PanelTask {
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  uint32_t first_panel = 0;
  uint32_t last_panel = 0;
  uint32_t x_rows = 0;             // rows that were prepared
  const uint32_t* rows = nullptr;  // null: 0 … row_count-1
  uint32_t row_count = 0;
  float* y = nullptr;
  uint64_t y_stride = 0;
  const uint32_t* y_rows = nullptr;  // [row_count]; null: 0 … row_count-1
  const float* row_scale = nullptr;  // [row_count] or null
  const float* bias = nullptr;
  Epilogue epilogue = Epilogue::store;

  [[gnu::always_inline]] float* y_row(uint32_t row) const noexcept {
    return y + (y_rows == nullptr ? row : y_rows[row]) * y_stride;
  }
  [[gnu::always_inline]] const float* scale_of(uint32_t row) const noexcept {
    return row_scale == nullptr ? nullptr : row_scale + row;
  }
};
inline PanelTask panel_task(const LinearJob& job, PanelRange panels) noexcept {
  return {.n_out = job.n_out,
          .k_in = job.k_in,
          .first_panel = panels.first,
          .last_panel = panels.last,
          .x_rows = job.x_rows,
          .rows = job.rows.empty() ? nullptr : job.rows.data(),
          .row_count = used_rows(job),
          .y = static_cast<float*>(job.y),
          .y_stride = job.y_stride,
          .y_rows = job.y_rows.empty() ? nullptr : job.y_rows.data(),
          .row_scale = job.row_scale,
          .bias = job.bias,
          .epilogue = job.epilogue};
}

// What every kernel that prepares rows needs to know of its share of a call: rows [first_row,
// last_row). Kernels add the form that they make of them.
struct RowTask {
  const float* x = nullptr;
  uint64_t x_stride = 0;
  const uint32_t* x_rows = nullptr;  // [rows] which rows of x; null: the first ones
  uint32_t rows = 0;
  uint32_t k_in = 0;
  uint32_t first_row = 0;
  uint32_t last_row = 0;

  [[gnu::always_inline]] const float* x_row(uint64_t row) const noexcept {
    return x + (x_rows == nullptr ? row : x_rows[row]) * x_stride;
  }
};
inline RowTask row_task(const PrepareCall& call, Slice slice) noexcept {
  const auto mine = share_of(call.rows, slice);
  return {.x = static_cast<const float*>(call.x),
          .x_stride = call.x_stride,
          .x_rows = call.x_rows.empty() ? nullptr : call.x_rows.data(),
          .rows = call.rows,
          .k_in = call.preparation.k_in,
          .first_row = mine.first,
          .last_row = mine.last};
}

// Scratch memory of each worker, from the host.
class WorkerScratch {
 public:
  explicit WorkerScratch(const HostServices& host) noexcept : host_(host) {}
  WorkerScratch(const WorkerScratch&) = delete;
  WorkerScratch& operator=(const WorkerScratch&) = delete;
  ~WorkerScratch();

  // Once. Error: out_of_memory.
  Status allocate(uint64_t bytes_each, uint32_t workers) noexcept;
  std::byte* of(uint32_t worker) const noexcept { return memory_ + worker * stride_; }

 private:
  const HostServices& host_;
  uint64_t stride_ = 0;
  std::byte* memory_ = nullptr;
};

// 'weight "NAME" FOUND'.
Status refuse_weight(const WeightView& weight, std::string_view found);

// Whether a weight's row order, if it has one, covers its rows.
constexpr bool row_order_fits(const WeightView& weight) noexcept {
  return weight.row_order.empty() || weight.row_order.size() == weight.n_out;
}

}  // namespace tenon::sdk
