#include "core/quantize/linear_algebra.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>

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

bool inverse_factor(const std::vector<double>& h, uint64_t k, std::vector<float>& u) {
  const Eigen::Map<const Doubles> whole(h.data(), index(k), index(k));
  const Eigen::LLT<Doubles> factor(whole);
  if (factor.info() != Eigen::Success) return false;
  const Doubles inverse = factor.solve(Doubles::Identity(index(k), index(k)));
  const Eigen::LLT<Doubles, Eigen::Upper> upper(inverse);
  if (upper.info() != Eigen::Success) return false;
  u.resize(k * k);
  view(u.data(), k, k, k) = Doubles(upper.matrixU()).cast<float>();
  return true;
}

}  // namespace tenon::quantize
