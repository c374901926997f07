#include "core/quantize/methods/range_search.h"

#include <algorithm>
#include <limits>

#include "core/quantize/methods/linear_algebra.h"

namespace tenon::quantize {
namespace {

constexpr uint32_t kParts = 8;      // of either end of a range: 1, 0.96, …
constexpr float kPartStep = 0.04f;  // of a range's end
constexpr uint32_t kRangeSweeps = 2;
constexpr uint32_t kCodeSweeps = 2;
constexpr uint32_t kCodePasses = 4;  // over the values of a group
constexpr float kDamping = 0.01f;    // of the mean of the diagonal: a text is not all texts

}  // namespace

RangeSearch::RangeSearch(std::span<const double> gram, uint64_t k, const GridOptions& options)
    : k_(k), options_(options) {
  // Only ratios matter, and sums over long texts would leave f32.
  double trace = 1e-30;
  for (uint64_t i = 0; i < k; ++i) trace += gram[i * k + i];
  const double unit = static_cast<double>(k) / trace;
  const auto at = [&](uint64_t i, uint64_t j) {
    const double sum = i >= j ? gram[i * k + j] : gram[j * k + i];
    return static_cast<float>(unit * sum) + (i == j ? kDamping : 0.0f);
  };
  const uint64_t each = options.group_of(k);
  for (uint64_t begin = 0; begin < k; begin += each) {
    Group group{begin, std::min(each, k - begin), {}, {}};
    for (uint64_t i = begin; i < begin + group.size; ++i) {
      for (uint64_t j = 0; j < k; ++j) group.with_all.push_back(at(i, j));
      for (uint64_t j = begin; j < begin + group.size; ++j) group.own.push_back(at(i, j));
    }
    groups_.push_back(std::move(group));
  }
}

// Values go to the nearest codes; `errors` were 0, so that `slopes` are of the other groups.
void RangeSearch::choose_range(const Group& group, const Part& part) const {
  const uint64_t size = group.size;
  const auto [least, most] = std::ranges::minmax(part.values);
  const float low = std::min(least, 0.0f), high = std::max(most, 0.0f);
  std::vector<Grid> grids;
  std::vector<float> errors;  // [grids, size]
  for (uint32_t i = 0; i < kParts; ++i) {
    for (uint32_t j = 0; j < kParts; ++j) {
      const Grid grid = grid_of((1 - kPartStep * static_cast<float>(i)) * low,
                                (1 - kPartStep * static_cast<float>(j)) * high, options_);
      for (const float value : part.values) {
        errors.push_back(grid.value(grid.code(value, options_.most())) - value);
      }
      grids.push_back(grid);
    }
  }
  std::vector<float> products(errors.size());
  multiply_transposed(errors.data(), grids.size(), group.own.data(), size, size, products.data());
  size_t best = 0;
  double smallest = std::numeric_limits<double>::max();
  for (size_t i = 0; i < grids.size(); ++i) {
    double error = 0;
    for (uint64_t j = 0; j < size; ++j) {
      error += double{errors[i * size + j]} * (products[i * size + j] + 2 * part.slopes[j]);
    }
    if (error >= smallest) continue;
    smallest = error;
    best = i;
  }
  part.grid = grids[best];
  std::copy_n(&errors[best * size], size, part.errors.data());
  for (uint64_t i = 0; i < size; ++i) {
    part.codes[i] = part.grid.code(part.values[i], options_.most());
  }
}

// The error of the outputs is a parabola over the scale, of which f16 has the best or nearly so.
void RangeSearch::choose_scale(const Group& group, const Part& part) {
  const uint64_t size = group.size;
  std::vector<float> steps(size), reached(size);
  for (uint64_t i = 0; i < size; ++i) {
    steps[i] = static_cast<float>(int{part.codes[i]} - int{part.grid.zero});
  }
  multiply_transposed(steps.data(), 1, group.own.data(), size, size, reached.data());
  double slope = 0, curve = 0;
  for (uint64_t i = 0; i < size; ++i) {
    slope += double{steps[i]} * part.slopes[i];
    curve += double{steps[i]} * reached[i];
  }
  if (curve <= 0) return;
  const float scale = stored_scale(part.grid.scale - static_cast<float>(slope / curve));
  const float change = scale - part.grid.scale;
  if (change * (2 * slope + change * curve) >= 0) return;
  part.grid.scale = scale;
  for (uint64_t i = 0; i < size; ++i) {
    part.errors[i] = scale * steps[i] - part.values[i];
    part.slopes[i] += change * reached[i];
  }
}

// One code up or down at a time, as long as that lowers the error of the outputs.
void RangeSearch::choose_codes(const Group& group, const Part& part, uint32_t most) {
  bool changed = true;
  for (uint32_t pass = 0; pass < kCodePasses && changed; ++pass) {
    changed = false;
    for (uint64_t j = 0; j < group.size; ++j) {
      const int direction = part.slopes[j] > 0 ? -1 : 1;
      const int next = part.codes[j] + direction;
      const float step = static_cast<float>(direction) * part.grid.scale;
      const float* column = &group.own[j * group.size];
      if (next < 0 || next > static_cast<int>(most)) continue;
      if (step * (2 * part.slopes[j] + step * column[j]) >= 0) continue;
      part.codes[j] = static_cast<uint8_t>(next);
      part.errors[j] += step;
      for (uint64_t i = 0; i < group.size; ++i) part.slopes[i] += step * column[i];
      changed = true;
    }
  }
}

template <typename Use>
void RangeSearch::visit_parts(const float* w, uint64_t count, bool anew, float* errors,
                              uint8_t* codes, Grid* grids, const Use& use) const {
  std::vector<float> slopes;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (uint64_t row = 0; row < count && anew; ++row) {
      std::fill_n(&errors[row * k_ + group.begin], group.size, 0.0f);
    }
    slopes.resize(count * group.size);
    multiply_transposed(errors, count, group.with_all.data(), group.size, k_, slopes.data());
    for (uint64_t row = 0; row < count; ++row) {
      const uint64_t at = row * k_ + group.begin;
      use(group, Part{{w + at, group.size},
                      {errors + at, group.size},
                      &slopes[row * group.size],
                      codes + at,
                      grids[row * groups_.size() + g]});
    }
  }
}

void RangeSearch::code_rows(const float* w, uint64_t first, uint64_t count,
                            CodedMatrix& out) const {
  std::vector<float> errors(count * k_);
  for (uint32_t sweep = 0; sweep < kRangeSweeps + kCodeSweeps; ++sweep) {
    const bool ranges = sweep < kRangeSweeps;
    visit_parts(w + first * k_, count, ranges, errors.data(), &out.codes[first * k_],
                &out.grids[first * groups_.size()], [&](const Group& group, const Part& part) {
                  if (ranges) {
                    choose_range(group, part);
                  } else {
                    choose_codes(group, part, options_.most());
                  }
                });
  }
}

void RangeSearch::improve_rows(const float* w, uint64_t count, uint32_t most, uint32_t sweeps,
                               uint8_t* codes, Grid* grids) const {
  std::vector<float> errors(count * k_);
  for (uint64_t row = 0; row < count; ++row) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Grid& grid = grids[row * groups_.size() + g];
      const uint64_t begin = row * k_ + groups_[g].begin;
      for (uint64_t i = begin; i < begin + groups_[g].size; ++i) {
        errors[i] = grid.value(codes[i]) - w[i];
      }
    }
  }
  for (uint32_t sweep = 0; sweep < sweeps; ++sweep) {
    visit_parts(w, count, false, errors.data(), codes, grids,
                [&](const Group& group, const Part& part) {
                  choose_scale(group, part);
                  choose_codes(group, part, most);
                });
  }
}

}  // namespace tenon::quantize
