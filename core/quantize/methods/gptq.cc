#include "core/quantize/methods/gptq.h"

#include <algorithm>
#include <numeric>

#include "core/quantize/blocks/row_shares.h"
#include "core/quantize/methods/linear_algebra.h"

namespace tenon::quantize {
namespace {

constexpr uint64_t kStripRows = 32;      // of the matrix, that one thread works on
constexpr uint64_t kBlockColumns = 128;  // after which the rest is brought up to date at once

// Some rows, their columns in the order in which they are rounded.
class Strip {
 public:
  Strip(const GptqInput& input, const GridOptions& grid, uint64_t rows)
      : input_(input),
        grid_(grid),
        rows_(rows),
        w_(rows * input.k),
        errors_(rows * kBlockColumns),
        codes_(rows * input.k),
        grids_(rows) {}

  void run(const float* w, uint64_t first, CodedMatrix& out) {
    const uint64_t k = input_.k;
    place_columns(w);
    for (uint64_t begin = 0; begin < k; begin += kBlockColumns) {
      const uint64_t end = std::min(begin + kBlockColumns, k);
      round_block(begin, end, first, out);
      if (end == k) break;
      subtract_product(errors_.data(), rows_, end - begin, &input_.factor[begin * k + end], k,
                       k - end, &w_[end], k);
    }
    if (input_.search != nullptr) {
      place_columns(w);
      input_.search->improve_rows(w_.data(), rows_, grid_.most(), input_.sweeps, codes_.data(),
                                  &out.grids[first * out.groups()]);
    }
    for (uint64_t r = 0; r < rows_; ++r) {
      for (uint64_t place = 0; place < k; ++place) {
        out.codes[(first + r) * k + input_.order[place]] = codes_[r * k + place];
      }
    }
  }

 private:
  void place_columns(const float* w) {
    const uint64_t k = input_.k;
    for (uint64_t r = 0; r < rows_; ++r) {
      for (uint64_t place = 0; place < k; ++place) {
        const uint32_t column = input_.order[place];
        w_[r * k + place] = input_.dead[column] ? 0.0f : w[r * k + column];
      }
    }
  }

  void round_block(uint64_t begin, uint64_t end, uint64_t first, CodedMatrix& out) {
    const uint64_t k = input_.k, group = grid_.group_of(k), width = end - begin;
    for (uint64_t place = begin; place < end; ++place) {
      if (place % group == 0) begin_group(place, first, out);
      const float* u = &input_.factor[place * k];
      for (uint64_t r = 0; r < rows_; ++r) {
        float* w = &w_[r * k];
        const uint8_t code = grids_[r].code(w[place], grid_.most());
        codes_[r * k + place] = code;
        const float error = (w[place] - grids_[r].value(code)) / u[place];
        for (uint64_t j = place + 1; j < end; ++j) w[j] -= error * u[j];
        errors_[r * width + place - begin] = error;
      }
    }
  }

  // A group's scale follows from its columns as they are by now; groups end where blocks end, or
  // are the whole row.
  void begin_group(uint64_t place, uint64_t first, CodedMatrix& out) {
    const uint64_t k = input_.k, count = std::min(grid_.group_of(k), k - place);
    for (uint64_t r = 0; r < rows_; ++r) {
      grids_[r] = fit_grid({&w_[r * k + place], count}, {&input_.importance[place], count}, grid_);
      out.grids[(first + r) * out.groups() + place / grid_.group_of(k)] = grids_[r];
    }
  }

  const GptqInput& input_;
  const GridOptions& grid_;
  const uint64_t rows_;
  std::vector<float> w_, errors_;  // [rows, k], [rows, block]
  std::vector<uint8_t> codes_;     // [rows, k]
  std::vector<Grid> grids_;        // [rows]
};

std::vector<uint32_t> column_order(const std::vector<double>& h, uint64_t k, bool by_importance) {
  std::vector<uint32_t> order(k);
  std::iota(order.begin(), order.end(), 0u);
  if (!by_importance) return order;
  std::ranges::stable_sort(order,
                           [&](uint32_t a, uint32_t b) { return h[a * k + a] > h[b * k + b]; });
  return order;
}

}  // namespace

Result<GptqInput> prepare_gptq(std::vector<double> h, uint64_t k, const GptqOptions& options,
                               const GridOptions& grid, WorkerPool& pool) {
  GptqInput input;
  input.k = k;
  input.dead.resize(k);
  double mean = 0;
  for (uint64_t i = 0; i < k; ++i) {
    input.dead[i] = h[i * k + i] == 0;
    if (input.dead[i]) h[i * k + i] = 1;
    mean += h[i * k + i] / static_cast<double>(k);
  }
  input.order = column_order(h, k, options.act_order);
  std::vector<double> placed(k * k);
  for_each_row(pool, k, [&](uint64_t i) {
    for (uint64_t j = 0; j < k; ++j) {
      const uint64_t a = std::max(input.order[i], input.order[j]);
      const uint64_t b = std::min(input.order[i], input.order[j]);
      placed[i * k + j] = h[a * k + b];
    }
  });
  for (uint64_t i = 0; i < k; ++i) {
    input.importance.push_back(static_cast<float>(placed[i * k + i]));
  }
  input.sweeps = options.sweeps;
  if (options.sweeps > 0) input.search = std::make_unique<const RangeSearch>(placed, k, grid);
  double added = 0;
  for (double damping = options.damping; damping <= 1; damping *= 10) {
    for (uint64_t i = 0; i < k; ++i) placed[i * k + i] += damping * mean - added;
    added = damping * mean;
    if (inverse_factor(placed, k, input.factor, pool)) return input;
  }
  return failed(
      "the calibration's inputs depend on each other so much that no factor is found; expected a "
      "longer calibration text, or a higher --damping");
}

CodedMatrix gptq(std::vector<float>& w, uint64_t n, const GptqInput& input, const GridOptions& grid,
                 WorkerPool& pool) {
  const uint64_t k = input.k;
  CodedMatrix out(n, k, grid);
  for (uint64_t place = 0; place < k; ++place) {
    out.group_of[input.order[place]] = static_cast<uint32_t>(place / grid.group_of(k));
  }
  in_row_shares(pool, n, kStripRows, [&](uint64_t first, uint64_t count) {
    Strip(input, grid, count).run(&w[first * k], first, out);
  });
  return out;
}

}  // namespace tenon::quantize
