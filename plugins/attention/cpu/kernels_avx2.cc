#if defined(__x86_64__)
#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kAvx2Kernels{"cpu/avx2", &store, &attend, &combine, &score};
}  // namespace tenon::attention_cpu
#endif
