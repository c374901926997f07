#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kPortableKernels = kernel_set("scan/portable");
}  // namespace tenon::state_cpu
