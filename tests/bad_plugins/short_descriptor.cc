// A descriptor that is shorter than any ever was.
#include "tests/bad_plugins/grants_nothing.h"

namespace {

using namespace tenon;

constexpr PluginDescriptor kShort = [] {
  PluginDescriptor broken = sdk::descriptor<Scheduler, GrantsNothing>(named("short"));
  broken.size = 8;
  return broken;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kShort)
