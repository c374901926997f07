#include "tests/support/models/executor_case.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/machine/cpu_features.h"
#include "core/exec/cpu/executor.h"
#include "core/exec/ref/executor.h"
#include "core/plugin/instance.h"
#include "core/plugin/registry.h"
#include "tests/support/folders.h"
#include "tests/support/linear/plain_kernels.h"

namespace tenon::test {
namespace {

// From the libraries in the build folder, as the program would load them.
class Plugins {
 public:
  explicit Plugins(const ExecutorCase& executor) {
    host_.cpu = executor.isa;
    host_.slow_bf16_dot = executor.isa != kCpuAvx512Bf16 && executor.isa != kCpuNeonBf16;
    host_.workers = executor.threads;
  }

  template <typename T>
  void create(std::string_view id, PluginInstance<T>& instance) {
    const auto found = find(kInterfaceOf<T>, id);
    ASSERT_TRUE(found.ok()) << found.status().message();
    auto options = fill_options(*found->descriptor, {});
    ASSERT_TRUE(options.ok()) << options.status().message();
    auto made =
        PluginInstance<T>::create(*found, *std::move(options), {&host_, &clock_, &facts_, nullptr});
    ASSERT_TRUE(made.ok()) << made.status().message();
    instance = *std::move(made);
  }

 private:
  // The registry is opened once: it looks into every library of the folder, which takes longer than
  // a small model does.
  static Result<PluginRef> find(std::string_view interface, std::string_view id) {
    static std::mutex mutex;
    static Result<PluginRegistry> registry = [] {
      PluginSearch search;
      search.folders.push_back({build_folder() + "/plugins", "tests", true});
      return PluginRegistry::open(std::move(search));
    }();
    const std::lock_guard lock(mutex);
    if (!registry.ok()) return not_found(std::string(registry.status().message()));
    return registry->find(interface, id);
  }

  HostFacts host_;
  VirtualClock clock_;
  PipelineFacts facts_;
};

// Plain attention and products; recurrences by the plugin, since there is no plainer one than the
// oracle's.
class PlainKernels final : public KernelSet {
 public:
  explicit PlainKernels(const ExecutorCase& executor) : plugins_(executor) {
    plugins_.create("cpu", state_);
  }
  AttentionKernel* attention() override { return &attention_; }
  const AttentionChunks* chunks() override { return &attention_.chunks(); }
  LinearKernel* linear() override { return &linear_; }
  StateKernel* state() override { return state_.get(); }

 private:
  Plugins plugins_;
  PlainAttention attention_;
  PlainLinear linear_;
  PluginInstance<StateKernel> state_;
};

class PluginKernels final : public KernelSet {
 public:
  explicit PluginKernels(const ExecutorCase& executor) : plugins_(executor) {
    plugins_.create("dense", linear_);
    LinearLimits limits;
    limits.max_rows = 8 * LoadOptions().max_rows;  // as experts may repeat rows
    limits.workers = executor.threads;
    const Status bound = linear_->bind(limits);
    EXPECT_TRUE(bound.ok()) << bound.message();
    plugins_.create("cpu", attention_);
    plugins_.create("cpu", state_);
  }
  AttentionKernel* attention() override { return attention_.get(); }
  const AttentionChunks* chunks() override {
    return attention_.extension<AttentionChunks>(kAttentionChunks);
  }
  LinearKernel* linear() override { return linear_.get(); }
  const GateFinish* gate_finish() override { return linear_.extension<GateFinish>(kGateFinish); }
  StateKernel* state() override { return state_.get(); }

 private:
  Plugins plugins_;
  PluginInstance<LinearKernel> linear_;
  PluginInstance<AttentionKernel> attention_;
  PluginInstance<StateKernel> state_;
};

}  // namespace

std::string ExecutorCase::name() const {
  if (kind == Kind::ref) return "ref";
  const std::string kernels = kind == Kind::cpu_plain ? "plain" : std::string(cpu_isa_name(isa));
  return "cpu_" + kernels + "_" + std::to_string(threads);
}

void PrintTo(const ExecutorCase& executor, std::ostream* out) {
  *out << executor.name();
}

std::vector<ExecutorCase> cpu_cases() {
  std::vector<ExecutorCase> cases = {{ExecutorCase::Kind::cpu_plain, kCpuPortable, 2}};
  for (const CpuFeatures isa :
       {kCpuPortable, kCpuAvx2, kCpuAvx512, kCpuAvx512Bf16, kCpuNeon, kCpuNeonBf16}) {
    if (detect_cpu_features().has_all(isa))
      cases.push_back({ExecutorCase::Kind::cpu_plugins, isa, 2});
  }
  return cases;
}

std::vector<ExecutorCase> executor_cases() {
  std::vector<ExecutorCase> cases = cpu_cases();
  cases.insert(cases.begin(), ExecutorCase{});
  return cases;
}

std::unique_ptr<KernelSet> make_kernels(const ExecutorCase& executor) {
  if (executor.kind == ExecutorCase::Kind::ref) return nullptr;
  if (executor.kind == ExecutorCase::Kind::cpu_plain)
    return std::make_unique<PlainKernels>(executor);
  return std::make_unique<PluginKernels>(executor);
}

std::unique_ptr<Executor> make_executor(const ExecutorCase& executor) {
  if (executor.kind == ExecutorCase::Kind::ref) return make_ref_executor();
  auto made = make_cpu_executor({executor.threads, executor.isa});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

Loaded::Loaded(const ExecutorCase& executor, const Model& model, const ModelShape& shape,
               LoadOptions options)
    : kernels_(make_kernels(executor)), executor_(make_executor(executor)) {
  if (kernels_ != nullptr) {
    options.attention = {kernels_->attention()};
    options.attention.prefill.chunks = options.attention.decode.chunks = kernels_->chunks();
    options.state = {kernels_->state(), "cpu"};
    options.linear = [this](const WeightView&) -> ChosenLinear {
      return {kernels_->linear(), kernels_->gate_finish()};
    };
  }
  driver_ = std::make_unique<StepDriver>(*executor_, model, shape, options);
  EXPECT_TRUE(driver_->load_status().ok()) << driver_->load_status().message();
}

}  // namespace tenon::test
