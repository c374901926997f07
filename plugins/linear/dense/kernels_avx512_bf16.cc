#if defined(__x86_64__)
#include "plugins/linear/dense/float8_pairs.h"
#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {

void multiply_bf16_dot(const MultiplyTask& task) {
  multiply<Bf16DotWeights>(task);
}
void multiply_float8_dot(const MultiplyTask& task) {
  multiply<Float8Pairs>(task);
}

// All other weights are multiplied as without bf16 dot products.
constinit const KernelSet kAvx512Bf16Kernels = [] {
  KernelSet set = make_kernel_set("dense/avx512_bf16");
  set.uses_pairs = set.crosses_float8 = true;
  set.multiply[static_cast<uint32_t>(Format::bf16)] = &multiply_bf16_dot;
  set.multiply[static_cast<uint32_t>(format_of(sdk::QuantFormat::f8_32))] = &multiply_float8_dot;
  return set;
}();

}  // namespace tenon::dense
#endif
