#if defined(__x86_64__)
#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kAvx2Kernels = kernel_set("scan/avx2");
}  // namespace tenon::state_cpu
#endif
