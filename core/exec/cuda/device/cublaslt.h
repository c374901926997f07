// cuBLASLt as the executor `cuda` calls it: a product of matrices is planned once, and the plan put
// on the queue as often as wanted. Two bodies: NVIDIA's library, which is loaded when somebody asks
// for it (device/cublaslt_library.h), and a double in tests.
//
// Matrices are column-major, as the library sees them. Plans are made on the host and may load what
// runs on the device, so none is made while launches are captured; a plan's runs are launches.
//
// Threads: one thread calls.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// Column c begins `leading` elements behind column c - 1.
struct LtMatrix {
  Input type = Input::f32;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t leading = 0;    // at least `rows`
  uint32_t alignment = 0;  // of its first byte: a power of two, at most 256
  friend constexpr auto operator<=>(const LtMatrix&, const LtMatrix&) = default;
};

// D = alpha · op(A) · op(B) + beta · D + bias, where op may transpose, and the bias has a number
// for each row of D. Sums are f32, and so is D.
struct LtProduct {
  LtMatrix a, b, d;
  bool transpose_a = false;
  bool transpose_b = false;
  uint32_t bias_alignment = 0;  // 0: no bias
  friend constexpr auto operator<=>(const LtProduct&, const LtProduct&) = default;
};

// All on the device, aligned as the product says.
struct LtArrays {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const float* bias = nullptr;
};

// What the library chose for a product. Belongs to the library that made it, and goes before it.
class LtPlan {
 public:
  virtual ~LtPlan() = default;
  virtual uint64_t workspace_bytes() const = 0;
};

class LtLibrary {
 public:
  virtual ~LtLibrary() = default;
  virtual std::string version() const = 0;  // "13.1.0"
  // For arrays like these, of which nothing is read. The plan takes no more workspace than that.
  // Errors: unsupported (the library has no algorithm for it), and what it reports.
  virtual Result<std::unique_ptr<LtPlan>> plan(const LtProduct& product, const LtArrays& arrays,
                                               uint64_t most_workspace_bytes) = 0;
  // On the queue; with beta 0 nothing is read from D. The workspace has at least the plan's bytes,
  // is aligned to 256, and holds anything before and after.
  virtual Status run(void* stream, LtPlan& plan, const LtArrays& arrays, float alpha, float beta,
                     void* workspace) = 0;
};

}  // namespace tenon::cuda
