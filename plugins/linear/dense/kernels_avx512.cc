#if defined(__x86_64__)
#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {
constinit const KernelSet kAvx512Kernels = make_kernel_set("dense/avx512");
}  // namespace tenon::dense
#endif
