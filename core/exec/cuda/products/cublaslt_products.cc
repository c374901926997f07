#include "core/exec/cuda/products/cublaslt_products.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace tenon::cuda {
namespace {

constexpr uint32_t kMostAlignment = 256;

uint32_t alignment_of(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  return std::min(kMostAlignment, uint32_t{1} << std::min(std::countr_zero(address), 8));
}

LtMatrix matrix(Input type, const void* at, uint64_t rows, uint64_t columns, int leading) {
  return {type, rows, columns, static_cast<uint64_t>(leading), alignment_of(at)};
}

// Rows that lie one behind the other are columns to the library. So y [rows, n] is D [n, rows], x
// is B [k, rows] as it stands, and W [n, k] is A [k, n], to be transposed.
LtProduct product_of(Input type, const MultiplyCall& call) {
  const auto n = static_cast<uint64_t>(call.n_out);
  const auto k = static_cast<uint64_t>(call.k_in);
  LtProduct made;
  made.a = matrix(type, call.w, k, n, call.w_stride);
  made.b = matrix(type, call.x, k, call.rows, call.x_stride);
  made.d = matrix(Input::f32, call.y, n, call.rows, call.y_stride);
  made.transpose_a = true;
  made.bias_alignment = call.bias != nullptr ? alignment_of(call.bias) : 0;
  return made;
}

std::string described(const LtProduct& product) {
  return "a product of " + std::to_string(product.d.columns) + " rows with a matrix of " +
         std::to_string(product.d.rows) + " x " + std::to_string(product.a.rows) + " in " +
         (product.a.type == Input::f32 ? "f32" : "bf16") + " by cuBLASLt";
}

}  // namespace

Status CublasLtProducts::load() {
  TENON_ASSIGN_OR_RETURN(workspace_, memory_.bytes(kWorkspaceBytes, "cuBLASLt's workspace"));
  return {};
}

Result<LtPlan*> CublasLtProducts::planned(const LtProduct& product, const LtArrays& arrays) {
  const auto found = plans_.find(product);
  if (found != plans_.end()) return found->second.get();
  if (only_planned_) return internal("it was not planned before launches were captured");
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<LtPlan> made,
                         library_.plan(product, arrays, kWorkspaceBytes));
  return plans_.emplace(product, std::move(made)).first->second.get();
}

Status CublasLtProducts::multiply(Input type, const MultiplyCall& call) {
  const LtProduct product = product_of(type, call);
  const LtArrays arrays = {call.w, call.x, call.y, call.bias};
  const auto run = [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(LtPlan* const plan, planned(product, arrays));
    const float alpha = call.add ? call.factor : 1.0f;
    return library_.run(driver_.stream(), *plan, arrays, alpha, call.add ? 1.0f : 0.0f, workspace_);
  };
  const Status done = run();
  return done.ok() ? Status() : with_context(described(product), done);
}

}  // namespace tenon::cuda
