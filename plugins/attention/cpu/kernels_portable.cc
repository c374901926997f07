#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kPortableKernels{"cpu/portable", &store, &attend, &combine, &score};
}  // namespace tenon::attention_cpu
