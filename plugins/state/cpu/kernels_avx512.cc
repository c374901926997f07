#if defined(__x86_64__)
#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kAvx512Kernels = kernel_set("scan/avx512");
}  // namespace tenon::state_cpu
#endif
