#if defined(__x86_64__)
#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kAvx2Kernels{"scan/avx2", &convolve, &scan_head, &scan_channels};
}  // namespace tenon::state_cpu
#endif
