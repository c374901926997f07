#if defined(__x86_64__)
#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kAvx512VnniKernels{"cpu/avx512_vnni", &store, &attend_in_bytes,
                                             &combine_in_bytes, &score};
}  // namespace tenon::attention_cpu
#endif
