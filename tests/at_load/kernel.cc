// An attention kernel whose library crashes when it is loaded.
#include <tenon/attention.h>
#include <tenon/sdk/plugin.h>

#include <csignal>

namespace {

using namespace tenon;

struct AtLoad {
  AtLoad() {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
};
[[gnu::used]] const AtLoad kLoaded;

class Kernel {
 public:
  Kernel(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void bind(const AttentionBinding&) {}
  void plan(const AttentionPlan&, KernelPlanOut&) {}
  void run(const AttentionCall&, uint32_t, Slice) {}
  std::string_view numerics() const { return "none"; }
};

constexpr PluginDescriptor kKernel = sdk::descriptor<AttentionKernel, Kernel>(
    {.id = "test.kernel_crashes", .version = "1.0.0", .summary = "n/a", .license = "Apache-2.0"});

}  // namespace

TENON_PLUGIN_LIBRARY(&kKernel)
