// Calls a function that nobody defines.
#include <tenon/sdk/plugin.h>

void defined_nowhere();

namespace {

using namespace tenon;

Status create(const HostServices&, const PipelineFacts&, const void*, void**) noexcept {
  defined_nowhere();
  return {};
}

constexpr PluginDescriptor kIncomplete = [] {
  PluginDescriptor base;
  base.interface = kSchedulerInterface;
  base.id = "incomplete";
  base.version = "1.0.0";
  base.summary = "was linked without a part of itself";
  base.create = &create;
  base.destroy = [](void*) noexcept {};
  return base;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kIncomplete)
