#include "core/quantize/methods/grid.h"

#include <algorithm>
#include <cmath>

#include "core/base/half.h"

namespace tenon::quantize {
namespace {

constexpr float kSmallestScale = 1e-6f;  // below it f16 has hardly a digit

double squared_error(std::span<const float> values, std::span<const float> importance,
                     const Grid& grid, uint32_t most) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = values[i] - grid.value(grid.code(values[i], most));
    sum += (importance.empty() ? 1.0 : importance[i]) * error * error;
  }
  return sum;
}

}  // namespace

float stored_scale(float scale) {
  return float_from_f16(f16_from_float(std::clamp(scale, kSmallestScale, 65504.0f)));
}

Grid grid_of(float low, float high, const GridOptions& options) {
  const auto most = static_cast<float>(options.most());
  if (options.symmetric) {
    const float largest = std::max(-low, high);
    return {stored_scale(2 * largest / most), static_cast<uint8_t>(1u << (options.bits - 1))};
  }
  Grid grid{stored_scale((high - low) / most), 0};
  const float zero =
      std::clamp(std::round(-low / grid.scale), static_cast<float>(options.least_zero), most);
  grid.zero = static_cast<uint8_t>(zero);
  // A zero point that was moved leaves fewer codes above it.
  if (zero < most) grid.scale = stored_scale(std::max(grid.scale, high / (most - zero)));
  return grid;
}

uint8_t Grid::code(float value, uint32_t most) const {
  const float code = std::round(value / scale) + static_cast<float>(zero);
  return static_cast<uint8_t>(std::clamp(code, 0.0f, static_cast<float>(most)));
}

Grid fit_grid(std::span<const float> values, std::span<const float> importance,
              const GridOptions& options) {
  float low = 0, high = 0;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Grid best = grid_of(low, high, options);
  if (!options.search) return best;
  double least = squared_error(values, importance, best, options.most());
  for (int step = 1; step <= 20; ++step) {
    const float part = 1 - 0.03f * static_cast<float>(step);
    const Grid grid = grid_of(part * low, part * high, options);
    const double error = squared_error(values, importance, grid, options.most());
    if (error < least) {
      least = error;
      best = grid;
    }
  }
  return best;
}

CodedMatrix::CodedMatrix(uint64_t rows, uint64_t columns, const GridOptions& how)
    : n(rows), k(columns), options(how), codes(rows * columns), group_of(columns) {
  grids.resize(n * groups());
  for (uint64_t j = 0; j < k; ++j) {
    group_of[j] = static_cast<uint32_t>(j / options.group_of(k));
  }
}

void CodedMatrix::values(uint64_t row, float* out) const {
  const Grid* own = grids.data() + row * groups();
  for (uint64_t j = 0; j < k; ++j) out[j] = own[group_of[j]].value(codes[row * k + j]);
}

void round_to_nearest(const float* w, uint64_t first, uint64_t count, CodedMatrix& out) {
  const uint64_t group = out.options.group_of(out.k);
  for (uint64_t row = first; row < first + count; ++row) {
    for (uint64_t begin = 0; begin < out.k; begin += group) {
      const std::span<const float> values(w + row * out.k + begin, std::min(group, out.k - begin));
      const Grid grid = fit_grid(values, {}, out.options);
      out.grids[row * out.groups() + begin / group] = grid;
      for (size_t i = 0; i < values.size(); ++i) {
        out.codes[row * out.k + begin + i] = grid.code(values[i], out.options.most());
      }
    }
  }
}

}  // namespace tenon::quantize
