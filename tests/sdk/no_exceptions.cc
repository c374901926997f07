// The SDK in a build without exceptions: everything that a plugin's author includes, and a plugin
// of each kind of adaptor.
#include <tenon/sdk/half.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/random.h>

#include <cstdint>

namespace tenon {
namespace {

class Greedy {
 public:
  Greedy(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void sample(std::span<const SampleRow>, std::span<SampleResult> results) {
    for (SampleResult& result : results) result.token = 0;
  }
  const void* extension(std::string_view) { return nullptr; }
};
constexpr PluginDescriptor kGreedy = sdk::descriptor<Sampler, Greedy>(
    {.id = "test.greedy", .version = "1.0.0", .summary = "takes token 0", .license = "Apache-2.0"});

class Idle {
 public:
  Idle(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void plan(const SchedulerView&, KvLedger&, PlanOut&) {}
};
constexpr PluginDescriptor kIdle = sdk::descriptor<Scheduler, Idle>(
    {.id = "test.idle", .version = "1.0.0", .summary = "plans nothing", .license = "Apache-2.0"});

class Nothing {
 public:
  Nothing(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  Status bind(const AttentionBinding&) { return {}; }
  Status run(const AttentionCall&, uint32_t, Slice) { return {}; }
  std::string_view numerics() const { return "nothing"; }
};
constexpr PluginDescriptor kNothing =
    sdk::descriptor<AttentionKernel, Nothing>({.id = "test.nothing",
                                               .version = "1.0.0",
                                               .summary = "attends to nothing",
                                               .license = "Apache-2.0"});

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kGreedy, &tenon::kIdle, &tenon::kNothing)
