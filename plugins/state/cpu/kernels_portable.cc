#include "plugins/state/cpu/entries.h"

namespace tenon::state_cpu {
constinit const KernelSet kPortableKernels{"scan/portable", &convolve, &scan_head, &scan_channels};
}  // namespace tenon::state_cpu
