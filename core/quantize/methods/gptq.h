// GPTQ (arXiv:2210.17323): columns are rounded one after the other, and what each loses is made up
// for by those that are still to come, as far as the inputs of the calibration allow. After that,
// in sweeps, scales and codes move where it makes the outputs better (range_search.h): the first
// columns were rounded before anybody knew what the last ones can make up for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/quantize/methods/grid.h"
#include "core/quantize/methods/range_search.h"

namespace tenon::quantize {

struct GptqOptions {
  bool act_order = false;  // columns by falling importance; their groups are then in that order
  double damping = 0.01;   // of the mean of the Hessian's diagonal, added to it
  uint32_t sweeps = 3;     // over scales and codes, after it; 0: GPTQ alone
};

// What the weights of one input share: the order of its columns and the factor of its Hessian.
struct GptqInput {
  uint64_t k = 0;
  std::vector<uint32_t> order;                // [k] column at each place
  std::vector<float> importance;              // [k] the Hessian's diagonal, at each place
  std::vector<float> factor;                  // [k, k] upper triangular, at places
  std::vector<bool> dead;                     // [k] columns that no input ever reaches
  std::unique_ptr<const RangeSearch> search;  // over places; null without sweeps
  uint32_t sweeps = 0;
};
// `h` [k, k], its lower triangle: Σ x·xᵀ. Groups are those of `grid`, whatever its bits. Error:
// failed where no damping up to a mean of the diagonal makes it positive definite.
Result<GptqInput> prepare_gptq(std::vector<double> h, uint64_t k, const GptqOptions& options,
                               const GridOptions& grid, WorkerPool& pool);

// w [n, k] in codes; w is overwritten.
CodedMatrix gptq(std::vector<float>& w, uint64_t n, const GptqInput& input, const GridOptions& grid,
                 WorkerPool& pool);

}  // namespace tenon::quantize
