#include "core/quantize/methods/awq.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/quantize/blocks/row_shares.h"
#include "core/quantize/methods/linear_algebra.h"
#include "core/quantize/methods/range_search.h"

namespace tenon::quantize {
namespace {

constexpr uint32_t kExponents = 20;   // of the inputs' sizes: 0, 1/20, …
constexpr uint64_t kRowsAtOnce = 16;  // that one core codes

// For each column, the mean over rows of |w| relative to the largest of its group.
std::vector<float> column_sizes(const std::vector<const std::vector<float>*>& values, uint64_t k,
                                uint64_t group) {
  std::vector<double> sums(k);
  uint64_t rows = 0;
  for (const std::vector<float>* w : values) {
    for (uint64_t at = 0; at < w->size(); at += k, ++rows) {
      for (uint64_t begin = 0; begin < k; begin += group) {
        const uint64_t end = std::min(begin + group, k);
        float largest = 1e-12f;
        for (uint64_t j = begin; j < end; ++j) largest = std::max(largest, std::fabs((*w)[at + j]));
        for (uint64_t j = begin; j < end; ++j) sums[j] += std::fabs((*w)[at + j]) / largest;
      }
    }
  }
  std::vector<float> sizes(k);
  for (uint64_t j = 0; j < k; ++j)
    sizes[j] = static_cast<float>(sums[j] / static_cast<double>(rows));
  return sizes;
}

// Means over the columns that share a factor.
std::vector<float> by_factor(const std::vector<float>& columns, const FactorLayout& layout) {
  std::vector<float> out(layout.count(columns.size()));
  const float share = static_cast<float>(out.size()) / static_cast<float>(columns.size());
  for (uint64_t j = 0; j < columns.size(); ++j) out[layout.of(j)] += share * columns[j];
  return out;
}

// Candidate `index`: |x|^a, for odd ones by the weights' own sizes.
std::vector<float> candidate(uint32_t index, const std::vector<float>& inputs,
                             const std::vector<float>& weights) {
  const auto step = index / 2;
  const float exponent = static_cast<float>(step) / static_cast<float>(kExponents);
  std::vector<float> factors(inputs.size());
  float least = std::numeric_limits<float>::max(), most = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    const float by = index % 2 == 0 ? 1.0f : std::pow(weights[i], 1 - exponent) + 1e-4f;
    factors[i] = std::max(std::pow(inputs[i], exponent) / by, 1e-4f);
    least = std::min(least, factors[i]);
    most = std::max(most, factors[i]);
  }
  const float middle = std::sqrt(least * most);
  for (float& factor : factors) factor /= middle;
  return factors;
}

// What rounding with these factors does to the outputs of the samples.
double error_of(const std::vector<float>& w, const std::vector<float>& factors,
                const FactorLayout& layout, const InputStatistics& inputs,
                const GridOptions& grid) {
  constexpr uint64_t kRows = 64;
  const uint64_t k = inputs.k, n = w.size() / k;
  double error = 0;
  for (uint64_t first = 0; first < n; first += kRows) {
    const uint64_t rows = std::min(kRows, n - first);
    std::vector<float> scaled(rows * k), errors(rows * k);
    for (uint64_t i = 0; i < scaled.size(); ++i) {
      scaled[i] = w[first * k + i] * factors[layout.of(i % k)];
    }
    CodedMatrix coded(rows, k, grid);
    round_to_nearest(scaled.data(), 0, rows, coded);
    for (uint64_t row = 0; row < rows; ++row) coded.values(row, &errors[row * k]);
    for (uint64_t i = 0; i < errors.size(); ++i) {
      errors[i] = errors[i] / factors[layout.of(i % k)] - w[first * k + i];
    }
    error += output_error(errors.data(), rows, inputs.samples.data(), inputs.sample_count(), k);
  }
  return error;
}

}  // namespace

std::vector<ScaledInput> scalable_inputs(const LayerPlan& plan, const LayerWeights& w) {
  std::vector<ScaledInput> out;
  const bool plain = plan.attends() && !plan.latent && !plan.recurrent;
  const bool norm_is_shared = plan.parallel && !plan.mlp_norm;
  if (plain && plan.attention_norm && !norm_is_shared) {
    out.push_back({ScaleSource::attention_norm, {&w.q, &w.k, &w.v}});
    if (plan.attention.output_gate) out.back().weights.push_back(&w.output_gate);
  }
  if (plain && plan.attention.clip == 0 && !plan.attention.learned_mask)
    out.push_back({ScaleSource::v_rows, {&w.output}});
  if (plan.experts || plan.mlp.width == 0) return out;
  if (plan.mlp_norm) {
    out.push_back({ScaleSource::mlp_norm, {&w.up, &w.gate}});
    if (!plan.mlp.gated) out.back().weights.pop_back();
  }
  if (plan.mlp.gated || plan.mlp.activation == Activation::relu) {
    out.push_back({ScaleSource::up_rows, {&w.down}});
  }
  return out;
}

std::vector<float> search_factors(const std::vector<const std::vector<float>*>& values,
                                  const InputStatistics& inputs, const FactorLayout& layout,
                                  const GridOptions& grid, WorkerPool& pool) {
  const uint64_t k = inputs.k;
  const std::vector<float> sizes = by_factor(inputs.mean, layout);
  const std::vector<float> weights = by_factor(column_sizes(values, k, grid.group_of(k)), layout);
  std::vector<std::vector<float>> factors;
  factors.emplace_back(layout.count(k), 1.0f);
  for (uint32_t i = 0; i < 2 * kExponents; ++i) factors.push_back(candidate(i, sizes, weights));
  std::vector<double> errors(factors.size());
  in_row_shares(pool, factors.size(), 1, [&](uint64_t i, uint64_t) {
    for (const std::vector<float>* w : values) {
      errors[i] += error_of(*w, factors[i], layout, inputs, grid);
    }
  });
  return factors[static_cast<size_t>(std::ranges::min_element(errors) - errors.begin())];
}

CodedMatrix round_with_ranges(const std::vector<float>& w, uint64_t n, uint64_t k,
                              std::span<const double> gram, const GridOptions& grid,
                              WorkerPool& pool) {
  CodedMatrix out(n, k, grid);
  std::optional<RangeSearch> search;
  if (!gram.empty()) search.emplace(gram, k, grid);
  in_row_shares(pool, n, kRowsAtOnce, [&](uint64_t first, uint64_t count) {
    if (search) {
      search->code_rows(w.data(), first, count, out);
    } else {
      round_to_nearest(w.data(), first, count, out);
    }
  });
  return out;
}

}  // namespace tenon::quantize
