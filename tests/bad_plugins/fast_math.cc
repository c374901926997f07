// Changes how its loader computes, as a library linked with -ffast-math does, and rounding as well.
#include <cfenv>

#include "tests/bad_plugins/grants_nothing.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

using namespace tenon;

[[gnu::constructor]] void compute_otherwise() {
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);  // flush to zero, denormals are zero
#endif
}

constexpr PluginDescriptor kFast = sdk::descriptor<Scheduler, GrantsNothing>(named("fast"));

}  // namespace

TENON_PLUGIN_LIBRARY(&kFast)
