// A scheduler whose library does something when it is loaded: TENON_AT_LOAD says what.
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/bad_plugins/grants_nothing.h"

namespace {

using namespace tenon;

enum class Way { loads, crashes, exits, hangs, scores_crash };
constexpr Way kWay = Way::TENON_AT_LOAD;

void crash() {
  // Handlers of whoever loaded it are not asked.
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

struct AtLoad {
  AtLoad() {
    if constexpr (kWay == Way::crashes) crash();
    if constexpr (kWay == Way::exits) std::_Exit(3);
    while (kWay == Way::hangs) ::pause();
  }
};
[[gnu::used]] const AtLoad kLoaded;

constexpr PluginDescriptor described() {
  PluginDescriptor base = named(TENON_AT_LOAD_ID);
  if constexpr (kWay == Way::scores_crash) {
    base.score = [](const HostFacts&) noexcept -> uint32_t {
      crash();
      return 1;
    };
  }
  return base;
}
constexpr PluginDescriptor kAtLoad = sdk::descriptor<Scheduler, GrantsNothing>(described());

}  // namespace

TENON_PLUGIN_LIBRARY(&kAtLoad)
