#if defined(__x86_64__)
#include "plugins/sampler/standard/scan_kernels.h"

namespace tenon::standard {
extern const ScanKernels kAvx512Scans;
constinit const ScanKernels kAvx512Scans = make_scan_kernels("avx512");
}  // namespace tenon::standard
#endif
