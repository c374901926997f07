// Carries a stamp and exports no table.
#include <tenon/plugin.h>

namespace {

constexpr tenon::PluginDescriptor kTableless = [] {
  tenon::PluginDescriptor only;
  only.interface = tenon::kSchedulerInterface;
  only.id = "tableless";
  return only;
}();
constexpr const tenon::PluginDescriptor* kDescriptors[] = {&kTableless};
constexpr auto kStamp = tenon::detail::stamp_of<tenon::detail::StampText<1000>>(kDescriptors);
[[gnu::used, gnu::section(".note.tenon"), gnu::aligned(4)]] constexpr auto kNote =
    tenon::detail::make_note(kStamp);

}  // namespace
