#include "plugins/linear/dense/kernel_set.h"

namespace tenon::dense {
constinit const KernelSet kPortableKernels = make_kernel_set("dense/portable");
}  // namespace tenon::dense
