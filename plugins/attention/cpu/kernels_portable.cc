#include "plugins/attention/cpu/attend.h"

namespace tenon::attention_cpu {
constinit const KernelSet kPortableKernels{"cpu/portable", &store, &attend, &combine};
}  // namespace tenon::attention_cpu
