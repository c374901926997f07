#include "core/quantize/methods/linear_algebra.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>

#include "core/quantize/blocks/row_shares.h"

namespace tenon::quantize {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Floats, 0, Eigen::OuterStride<>>;
using Map = Eigen::Map<Floats, 0, Eigen::OuterStride<>>;

Eigen::Index index(uint64_t value) {
  return static_cast<Eigen::Index>(value);
}
ConstMap view(const float* data, uint64_t rows, uint64_t columns, uint64_t stride) {
  return {data, index(rows), index(columns), Eigen::OuterStride<>(index(stride))};
}
Map view(float* data, uint64_t rows, uint64_t columns, uint64_t stride) {
  return {data, index(rows), index(columns), Eigen::OuterStride<>(index(stride))};
}

// Rows and columns of a block that one worker has at a time; it decides how sums are split, so that
// they are the same for any number of workers.
constexpr uint64_t kBlock = 128;

// The lower triangle of a symmetric matrix becomes that of L with L · Lᵀ; false where it is not
// positive definite. Block column by block column: the block on the diagonal, the blocks below it,
// then their product leaves all that is to the right.
bool factor_in_place(Doubles& a, WorkerPool& pool) {
  const auto k = static_cast<uint64_t>(a.rows());
  for (uint64_t begin = 0; begin < k; begin += kBlock) {
    const uint64_t count = std::min(kBlock, k - begin);
    const uint64_t end = begin + count;
    auto diagonal = a.block(index(begin), index(begin), index(count), index(count));
    const Eigen::LLT<Eigen::Ref<Doubles>> factor(diagonal);
    if (factor.info() != Eigen::Success) return false;
    const auto rows_of = [&](uint64_t first, uint64_t rows) {
      return a.block(index(end + first), index(begin), index(rows), index(count));
    };
    in_row_shares(pool, k - end, kShareRows, [&](uint64_t first, uint64_t rows) {
      diagonal.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(
          rows_of(first, rows));
    });
    const uint64_t blocks = (k - end + kBlock - 1) / kBlock;
    // The longest rows of blocks first, so that none is waited for at the end.
    in_row_shares(pool, blocks, 1, [&](uint64_t behind, uint64_t) {
      const uint64_t row = (blocks - 1 - behind) * kBlock;
      const uint64_t rows = std::min(kBlock, k - end - row);
      for (uint64_t column = 0; column <= row; column += kBlock) {
        const uint64_t columns = std::min(kBlock, k - end - column);
        a.block(index(end + row), index(end + column), index(rows), index(columns)).noalias() -=
            rows_of(row, rows) * rows_of(column, columns).transpose();
      }
    });
  }
  return true;
}

}  // namespace

void multiply_transposed(const float* x, uint64_t rows, const float* w, uint64_t n, uint64_t k,
                         float* y) {
  view(y, rows, n, n).noalias() = view(x, rows, k, k) * view(w, n, k, k).transpose();
}

void subtract_product(const float* e, uint64_t rows, uint64_t k, const float* u, uint64_t u_stride,
                      uint64_t n, float* a, uint64_t stride) {
  view(a, rows, n, stride).noalias() -= view(e, rows, k, k) * view(u, k, n, u_stride);
}

void add_gram(const float* x, uint64_t rows, uint64_t k, uint64_t first, uint64_t count,
              double* h) {
  const uint64_t end = first + count;
  const Floats product = view(x, rows, k, k).middleCols(index(first), index(count)).transpose() *
                         view(x, rows, k, k).leftCols(index(end));
  Eigen::Map<Doubles> all(h, index(k), index(k));
  all.block(index(first), 0, index(count), index(end)) += product.cast<double>();
}

double output_error(const float* e, uint64_t rows, const float* x, uint64_t samples, uint64_t k) {
  const Floats outputs = view(e, rows, k, k) * view(x, samples, k, k).transpose();
  return outputs.cast<double>().squaredNorm();
}

bool inverse_factor(const std::vector<double>& h, uint64_t k, std::vector<float>& u,
                    WorkerPool& pool) {
  // With rows and columns in reverse order h = L · Lᵀ; then U is L⁻¹ in reverse order.
  Doubles lower(index(k), index(k));
  for_each_row(pool, k, [&](uint64_t row) {
    for (uint64_t j = 0; j <= row; ++j) {
      lower(index(row), index(j)) = h[(k - 1 - row) * k + (k - 1 - j)];
    }
  });
  if (!factor_in_place(lower, pool)) return false;
  u.assign(k * k, 0.0f);
  in_row_shares(pool, k, kBlock, [&](uint64_t first, uint64_t count) {
    const Eigen::Index below = index(k - first);
    Doubles columns = Doubles::Identity(below, index(count));
    lower.bottomRightCorner(below, below).triangularView<Eigen::Lower>().solveInPlace(columns);
    for (uint64_t i = first; i < k; ++i) {
      for (uint64_t j = first; j < first + count && j <= i; ++j) {
        u[(k - 1 - i) * k + (k - 1 - j)] =
            static_cast<float>(columns(index(i - first), index(j - first)));
      }
    }
  });
  return true;
}

}  // namespace tenon::quantize
