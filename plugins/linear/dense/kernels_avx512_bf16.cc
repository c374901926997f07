#if defined(__x86_64__)
#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {
constinit const KernelSet kAvx512Bf16Kernels = make_kernel_set<Bf16DotWeights>("dense/avx512_bf16");
}  // namespace tenon::dense
#endif
