#if defined(__x86_64__)
#include "plugins/linear/onednn/row_ops_set.h"

namespace tenon::onednn {
constinit const RowOps kAvx2RowOps = make_row_ops();
}  // namespace tenon::onednn
#endif
