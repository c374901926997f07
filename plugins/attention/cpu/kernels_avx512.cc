#if defined(__x86_64__)
#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kAvx512Kernels{"cpu/avx512", &store, &attend, &combine, &score};
}  // namespace tenon::attention_cpu
#endif
