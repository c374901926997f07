#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {
constinit const KernelSet kNeonKernels = make_kernel_set("dense/neon");
}  // namespace tenon::dense
