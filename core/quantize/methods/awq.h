// AWQ (arXiv:2306.00978): columns that large inputs reach are scaled up before they are rounded,
// and what makes those inputs is scaled down, so that the model stays the same; then ranges of
// groups are cut, and codes moved, where that lowers the error of the outputs (range_search.h; that
// codes make up for each other is not in the paper).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/base/threads/worker_pool.h"
#include "core/quantize/layer_inputs.h"
#include "core/quantize/methods/grid.h"

namespace tenon::quantize {

// The inputs of products that may be scaled, and the operation that does it.
enum class ScaleSource : uint8_t { attention_norm, v_rows, mlp_norm, up_rows };
struct ScaledInput {
  ScaleSource source;
  std::vector<const Weight*> weights;  // that read it
};
// Where a layer's plan leaves the result the same, whatever the scales.
std::vector<ScaledInput> scalable_inputs(const LayerPlan& plan, const LayerWeights& weights);

// The factor of each column, [k] above 0, with which the rounded weights make the smallest error.
// `values` are the weights, [n_i, k]. With `shared` > 1, so many columns in turn have one factor:
// column j has that of j modulo … (heads that read one KV head), see column_of_factor().
struct FactorLayout {
  uint64_t head_dim = 0;  // 0: each column has a factor of its own
  uint64_t heads_each = 1;
  uint64_t count(uint64_t k) const { return head_dim == 0 ? k : k / heads_each; }
  // The factor of column j.
  uint64_t of(uint64_t j) const {
    return head_dim == 0 ? j : j / (head_dim * heads_each) * head_dim + j % head_dim;
  }
};
std::vector<float> search_factors(const std::vector<const std::vector<float>*>& values,
                                  const InputStatistics& inputs, const FactorLayout& layout,
                                  const GridOptions& grid, WorkerPool& pool);

// w [n, k] in codes. With `gram` [k, k], the lower triangle of Σ x·xᵀ, by RangeSearch.
CodedMatrix round_with_ranges(const std::vector<float>& w, uint64_t n, uint64_t k,
                              std::span<const double> gram, const GridOptions& grid,
                              WorkerPool& pool);

}  // namespace tenon::quantize
