#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kNeonKernels = kernel_set("scan/neon");
}  // namespace tenon::state_cpu
