#if defined(__x86_64__)
#include "plugins/attention/cpu/entries.h"

namespace tenon::attention_cpu {
constinit const KernelSet kAvx512Bf16Kernels{"cpu/avx512_bf16", &store, &attend_in_pairs, &combine,
                                             &score};
}  // namespace tenon::attention_cpu
#endif
