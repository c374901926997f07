#if defined(__x86_64__)
#include "plugins/linear/int8/kernel_set.h"

namespace tenon::int8 {
constinit const KernelSet kAvxVnniKernels = make_kernel_set();
}  // namespace tenon::int8
#endif
