#include "plugins/linear/onednn/row_ops_set.h"

namespace tenon::onednn {
constinit const RowOps kPortableRowOps = make_row_ops();
}  // namespace tenon::onednn
