#include "plugins/sampler/standard/scan_kernels.h"

namespace tenon::standard {
extern const ScanKernels kNeonScans;
constinit const ScanKernels kNeonScans = make_scan_kernels("neon");
}  // namespace tenon::standard
