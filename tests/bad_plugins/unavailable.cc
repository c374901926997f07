// Drafters that can run on no machine.
#include <tenon/drafter.h>
#include <tenon/sdk/plugin.h>

namespace {

using namespace tenon;

class Absent {
 public:
  Absent(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void offer(std::span<const DraftRequest>, std::span<uint32_t>) {}
  void draft(std::span<const DraftRequest>, std::span<DraftOut>) {}
};

constexpr PluginDescriptor kAbsent = [] {
  PluginDescriptor base;
  base.id = "absent";
  base.version = "1.0.0";
  base.summary = "needs a device that nobody has";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 0; };
  base.unavailable = "no such device";
  return sdk::descriptor<Drafter, Absent>(base);
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kAbsent)
