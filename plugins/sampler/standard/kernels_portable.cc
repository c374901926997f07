#include "plugins/sampler/standard/scan_kernels.h"

namespace tenon::standard {
extern const ScanKernels kPortableScans;
constinit const ScanKernels kPortableScans = make_scan_kernels("portable");
}  // namespace tenon::standard
