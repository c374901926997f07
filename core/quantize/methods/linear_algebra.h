// Products of dense matrices, row-major, on the calling thread, and their factors on all threads of
// a pool. The library behind them is Eigen, which no other file sees.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/threads/worker_pool.h"

namespace tenon::quantize {

// y [rows, n] = x [rows, k] · wᵀ, w [n, k].
void multiply_transposed(const float* x, uint64_t rows, const float* w, uint64_t n, uint64_t k,
                         float* y);
// a [rows, n], whose rows are `stride` apart, minus e [rows, k] · u [k, n], whose rows are
// `u_stride` apart.
void subtract_product(const float* e, uint64_t rows, uint64_t k, const float* u, uint64_t u_stride,
                      uint64_t n, float* a, uint64_t stride);
// Rows [first, first + count) of the lower triangle of h [k, k] += xᵀ · x, x [rows, k].
void add_gram(const float* x, uint64_t rows, uint64_t k, uint64_t first, uint64_t count, double* h);
// Σ over rows of |e · xᵀ|², e [rows, k], x [samples, k]: what an error in the weights does to the
// outputs.
double output_error(const float* e, uint64_t rows, const float* x, uint64_t samples, uint64_t k);
// The upper triangular U with Uᵀ · U = h⁻¹, of a symmetric h [k, k]; false where h is not positive
// definite. The same bits for any number of threads; takes 8 k² bytes in addition to h and u.
bool inverse_factor(const std::vector<double>& h, uint64_t k, std::vector<float>& u,
                    WorkerPool& pool);

}  // namespace tenon::quantize
