// Does not compile: what the compiler says must name the method that is missing.
#include <tenon/sdk/plugin.h>

namespace {

struct Idle {
  Idle(const tenon::HostServices&, const tenon::PipelineFacts&, const tenon::sdk::NoOptions&) {}
  void on_event(const tenon::SequenceEvent&) {}
};
constexpr tenon::PluginDescriptor kIdle = tenon::sdk::descriptor<tenon::Scheduler, Idle>(
    {.id = "idle", .version = "1.0.0", .summary = "has no plan", .license = "Apache-2.0"});

}  // namespace

TENON_PLUGIN_LIBRARY(&kIdle)
