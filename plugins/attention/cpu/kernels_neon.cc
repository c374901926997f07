#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kNeonKernels{"cpu/neon", &store, &attend, &combine, &score};
}  // namespace tenon::attention_cpu
