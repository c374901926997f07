#if defined(__x86_64__)
#include "plugins/sampler/standard/scan_kernels.h"

namespace tenon::standard {
extern const ScanKernels kAvx2Scans;
constinit const ScanKernels kAvx2Scans = make_scan_kernels("avx2");
}  // namespace tenon::standard
#endif
