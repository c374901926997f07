#include "tests/cuda/rig/cublaslt_double.h"

#include <tenon/cuda/machine.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tenon::cuda::test {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;

Status invalid(const std::string& why) {
  return internal("CUBLAS_STATUS_INVALID_VALUE: " + why);
}

uint64_t element_bytes(Input type) {
  return type == Input::f32 ? sizeof(float) : sizeof(BFloat16);
}

bool lies_at(const void* at, uint32_t alignment) {
  return at != nullptr && reinterpret_cast<uintptr_t>(at) % alignment == 0;
}

Status check_matrix(const char* name, const LtMatrix& matrix, const void* at) {
  const std::string what(name);
  if (matrix.rows == 0 || matrix.columns == 0) return invalid(what + " is empty");
  if (matrix.leading < matrix.rows) return invalid("columns of " + what + " overlap");
  if (!std::has_single_bit(matrix.alignment) || matrix.alignment > 256 ||
      matrix.alignment < element_bytes(matrix.type)) {
    return invalid(what + " has an alignment of " + std::to_string(matrix.alignment));
  }
  if (!lies_at(at, matrix.alignment)) return invalid(what + " is not aligned as it is said to be");
  return {};
}

Status check_arrays(const LtProduct& product, const LtArrays& arrays) {
  TENON_RETURN_IF_ERROR(check_matrix("A", product.a, arrays.a));
  TENON_RETURN_IF_ERROR(check_matrix("B", product.b, arrays.b));
  TENON_RETURN_IF_ERROR(check_matrix("D", product.d, arrays.d));
  if ((product.bias_alignment > 0) != (arrays.bias != nullptr)) {
    return invalid("a bias is there where none was announced, or the other way round");
  }
  if (product.bias_alignment > 0 && !lies_at(arrays.bias, product.bias_alignment)) {
    return invalid("the bias is not aligned as it is said to be");
  }
  return {};
}

uint64_t inner_of(const LtProduct& product) {
  return product.transpose_a ? product.a.rows : product.a.columns;
}

}  // namespace

class CublasLtDouble::Plan final : public LtPlan {
 public:
  Plan(CublasLtDouble& library, const LtProduct& made_for, uint32_t sum_parts, uint64_t bytes)
      : product(made_for), parts(sum_parts), library_(library), bytes_(bytes) {
    library_.live_.insert(this);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() override { library_.live_.erase(this); }
  uint64_t workspace_bytes() const override { return bytes_; }

  const LtProduct product;
  const uint32_t parts;  // that K is summed in

 private:
  CublasLtDouble& library_;
  uint64_t bytes_;
};

Status CublasLtDouble::check_plan(const LtProduct& product, const LtArrays& arrays) const {
  if (driver_.capturing()) return invalid("a plan is made while launches are captured");
  TENON_RETURN_IF_ERROR(check_arrays(product, arrays));
  const auto shape = [](const LtMatrix& m, bool transpose) {
    return transpose ? std::pair(m.columns, m.rows) : std::pair(m.rows, m.columns);
  };
  const auto [a_rows, a_columns] = shape(product.a, product.transpose_a);
  const auto [b_rows, b_columns] = shape(product.b, product.transpose_b);
  if (a_columns != b_rows || product.d.rows != a_rows || product.d.columns != b_columns) {
    return invalid("the matrices do not fit each other");
  }
  if (product.a.type != product.b.type || product.d.type != Input::f32) {
    return invalid("types that do not go together");
  }
  return {};
}

Result<std::unique_ptr<LtPlan>> CublasLtDouble::plan(const LtProduct& product,
                                                     const LtArrays& arrays,
                                                     uint64_t most_workspace_bytes) {
  TENON_RETURN_IF_ERROR(check_plan(product, arrays));
  if (refuses_plans_) return unsupported("the library has no algorithm for it on this device");
  // Parts of K have their sums in the workspace; where that is too small there is one part.
  uint32_t parts = sums_alike_ ? 1 : 1 + static_cast<uint32_t>(product.d.columns % 3);
  uint64_t bytes = parts > 1 ? parts * product.d.rows * product.d.columns * sizeof(float) : 0;
  if (bytes > most_workspace_bytes) parts = 1, bytes = 0;
  ++plans_;
  most_workspace_ = std::max(most_workspace_, bytes);
  return std::unique_ptr<LtPlan>(std::make_unique<Plan>(*this, product, parts, bytes));
}

Status CublasLtDouble::run(void* stream, LtPlan& plan, const LtArrays& arrays, float alpha,
                           float beta, void* workspace) {
  if (live_.count(&plan) == 0) return invalid("a plan of another library, or none");
  const auto& own = static_cast<const Plan&>(plan);
  TENON_RETURN_IF_ERROR(check_arrays(own.product, arrays));
  if (stream != driver_.stream()) return invalid("another queue than the driver's");
  if (own.workspace_bytes() > 0 && !lies_at(workspace, kWorkspaceAlignment)) {
    return invalid("the workspace is not aligned to 256 bytes");
  }
  if (runs_until_fault_ > 0 && --runs_until_fault_ == 0) {
    return internal("the function failed to launch (CUBLAS_STATUS_EXECUTION_FAILED)");
  }
  ++runs_;
  static_cast<LateQueue*>(stream)->push([this, product = own.product, parts = own.parts, arrays,
                                         alpha, beta, workspace, bytes = own.workspace_bytes()] {
    compute(product, arrays, parts, alpha, beta);
    rubbish(workspace, bytes);
  });
  return {};
}

void CublasLtDouble::rubbish(void* workspace, uint64_t bytes) {
  const std::vector<std::byte> all(bytes, std::byte{0xdb});
  if (bytes > 0 && !driver_.machine().copy_in(workspace, all.data(), bytes)) {
    findings_.emplace_back("the workspace is smaller than the plan's");
  }
}

std::vector<float> CublasLtDouble::read(const char* name, const LtMatrix& matrix, const void* at,
                                        uint64_t column) {
  const uint64_t bytes = matrix.rows * element_bytes(matrix.type);
  const auto* from =
      static_cast<const std::byte*>(at) + column * matrix.leading * element_bytes(matrix.type);
  std::vector<float> values(matrix.rows);
  if (!driver_.machine().written(from, bytes)) {
    findings_.push_back("column " + std::to_string(column) + " of " + name +
                        " is outside of its array, or nobody wrote all of it");
  } else if (matrix.type == Input::f32) {
    (void)driver_.machine().copy_out(values.data(), from, bytes);
  } else {
    std::vector<BFloat16> narrow(matrix.rows);
    (void)driver_.machine().copy_out(narrow.data(), from, bytes);
    std::ranges::transform(narrow, values.begin(), [](BFloat16 x) { return to_float(x); });
  }
  return values;
}

void CublasLtDouble::compute(const LtProduct& product, const LtArrays& arrays, uint32_t parts,
                             float alpha, float beta) {
  std::vector<std::vector<float>> a;
  for (uint64_t i = 0; i < product.a.columns; ++i) a.push_back(read("A", product.a, arrays.a, i));
  std::vector<std::vector<float>> b;
  for (uint64_t i = 0; i < product.b.columns; ++i) b.push_back(read("B", product.b, arrays.b, i));
  std::vector<float> bias(product.d.rows, 0.0f);
  if (arrays.bias != nullptr) {
    bias = read("the bias", {Input::f32, product.d.rows, 1, product.d.rows, 4}, arrays.bias, 0);
  }
  const auto at_a = [&](uint64_t i, uint64_t k) { return product.transpose_a ? a[i][k] : a[k][i]; };
  const auto at_b = [&](uint64_t k, uint64_t j) { return product.transpose_b ? b[k][j] : b[j][k]; };
  const uint64_t inner = inner_of(product);
  if (!findings_.empty()) return;
  for (uint64_t j = 0; j < product.d.columns; ++j) {
    std::vector<float> column(product.d.rows, 0.0f);
    if (beta != 0.0f) column = read("D", product.d, arrays.d, j);
    for (uint64_t i = 0; i < product.d.rows; ++i) {
      float sum = 0.0f;
      for (uint32_t part = 0; part < parts; ++part) {
        float of_part = 0.0f;
        for (uint64_t k = part; k < inner; k += parts) of_part += at_a(i, k) * at_b(k, j);
        sum += of_part;
      }
      const float before = beta != 0.0f ? beta * column[i] : 0.0f;
      column[i] = alpha * sum + before + bias[i];
    }
    auto* const to = static_cast<float*>(arrays.d) + j * product.d.leading;
    if (!driver_.machine().copy_in(to, column.data(), column.size() * sizeof(float))) {
      findings_.emplace_back("D is outside of its array");
    }
  }
}

}  // namespace tenon::cuda::test
