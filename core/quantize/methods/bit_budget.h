// Bits where they lower the loss most: each matrix of a model gets a width of its own, so that all
// together keep a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/model/model.h"
#include "core/quantize/methods/method.h"

namespace tenon::quantize {

// A width that a matrix may have.
struct BitChoice {
  uint32_t bits = 0;
  uint64_t stored_bits = 0;  // of all its codes, scales and zero points
  double loss = 0;
};
// One choice of each matrix, as an index: the loss of all together is low, and their bits are at
// most `budget`. Choices are in order of their bits. Where even the least do not fit, these.
std::vector<size_t> spend_bits(const std::vector<std::vector<BitChoice>>& matrices,
                               uint64_t budget);

// How much a matrix takes, scales, zero points and column groups included.
uint64_t stored_bits(const GridOptions& grid, uint64_t n, uint64_t k);

// Bits of every matrix by the stem of its name, so that a weight takes `bits_a_weight` at most on
// average. What a width loses is measured: each matrix is rounded alone, as `options` say, and the
// loss is how far hidden states after its layer move, |difference|² / |states|², over the first
// windows. Errors: invalid_argument (a budget below what the least bits take).
using BitsOf = std::map<std::string, uint32_t>;
Result<BitsOf> choose_bits(const Model& model, const MethodOptions& options, double bits_a_weight,
                           const std::vector<std::vector<TokenId>>& windows, WorkerPool& pool,
                           const std::function<void(double)>& progress);

}  // namespace tenon::quantize
