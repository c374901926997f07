// Carries a stamp and exports no table.
#include <tenon/plugin.h>

namespace {

constexpr tenon::detail::StampText kStamp = [] {
  tenon::detail::StampText stamp;
  tenon::detail::add_stamp_head(stamp);
  stamp.add("\nplugins=scheduler/1:tableless\n");
  return stamp;
}();
[[gnu::used, gnu::section(".note.tenon"),
  gnu::aligned(4)]] constexpr tenon::detail::StampNote kNote = tenon::detail::make_note(kStamp);

}  // namespace
