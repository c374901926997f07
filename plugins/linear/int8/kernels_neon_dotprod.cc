#include "plugins/linear/int8/kernel_set.h"

namespace tenon::int8 {
constinit const KernelSet kNeonDotprodKernels = make_kernel_set();
}  // namespace tenon::int8
