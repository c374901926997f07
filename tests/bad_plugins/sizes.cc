// Descriptors of other years: one that ends before `extension`, one with more after it.
#include "tests/bad_plugins/grants_nothing.h"

namespace {

using namespace tenon;

constexpr int kLeftover = 0;

constexpr PluginDescriptor kOlder = [] {
  PluginDescriptor older = sdk::descriptor<Scheduler, GrantsNothing>(named("older"));
  older.size = offsetof(PluginDescriptor, extension);
  // After the end: whatever stands there is none of the host's business.
  older.extension = [](void*, std::string_view) noexcept -> const void* { return &kLeftover; };
  return older;
}();

struct LaterDescriptor {
  PluginDescriptor today;
  const char* further = "a member that this host has never heard of";
};
constexpr LaterDescriptor kLater = [] {
  LaterDescriptor later{sdk::descriptor<Scheduler, GrantsNothing>(named("later"))};
  later.today.size = sizeof(LaterDescriptor);
  return later;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kOlder, &kLater.today)
