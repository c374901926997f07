#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {

void multiply_bf16_dot(const MultiplyTask& task) {
  multiply<Bf16DotWeights>(task);
}

// All other weights are multiplied as without bf16 dot products.
constinit const KernelSet kNeonBf16Kernels = [] {
  KernelSet set = make_kernel_set("dense/neon_bf16");
  set.uses_pairs = true;
  set.multiply[static_cast<uint32_t>(Format::bf16)] = &multiply_bf16_dot;
  return set;
}();

}  // namespace tenon::dense
