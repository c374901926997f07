// The engine's step loop over the executor `cuda` and the emulated device, or a GPU, with the
// project's schedulers, KV managers and sampler.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "core/exec/cuda/executor.h"
#include "tests/cuda/rig/emulated_device.h"
#include "tests/cuda/rig/test_driver.h"
#include "tests/device/small_engine.h"

namespace tenon::cuda::test {

using tenon::test::Answer;

struct LoopCase {
  tenon::test::WorldOptions world = tenon::test::engine_world("paged");
  std::string scheduler = "continuous";
  std::string kv_cache = "paged";
  bool plan_ahead = false;
  uint64_t graph_bytes = 0;
  uint64_t seed = 1;
  bool on_host = false;        // by the oracle, in place of the executor `cuda`
  Drafter* drafter = nullptr;  // of trees
  // Has products made by cuBLASLt, whose double is prepared before it is loaded with.
  std::function<void(TestGuest&)> guest = {};
  // Tokens are drawn on the device where the sampler allows it; then logits have no digest.
  bool draws = false;
  // Called with every plan's number of pieces of work that wait on the device.
  std::function<void(uint64_t waiting)> on_plan = {};
};

// Says how much waits on the device whenever a step is planned.
class WatchedScheduler final : public Scheduler {
 public:
  WatchedScheduler(Scheduler& inner, const TestDriver& driver,
                   std::function<void(uint64_t)> on_plan)
      : inner_(inner), driver_(driver), on_plan_(std::move(on_plan)) {}
  Status on_event(const SequenceEvent& event) noexcept override { return inner_.on_event(event); }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    if (on_plan_) on_plan_(driver_.waiting());
    return inner_.plan(view, ledger, out);
  }

 private:
  Scheduler& inner_;
  const TestDriver& driver_;
  std::function<void(uint64_t)> on_plan_;
};

class StepLoop {
 public:
  explicit StepLoop(const LoopCase& c);

  // Runs some requests to their ends; all samples of all of them, in order.
  std::vector<Answer> run();
  TestDriver& driver() { return *driver_; }
  TestGuest& guest() { return *guest_; }
  Engine& engine() { return *engine_; }

 private:
  tenon::test::SmallWorld world_;
  std::shared_ptr<TestDriver> driver_;
  std::shared_ptr<TestGuest> guest_;
  std::unique_ptr<Executor> executor_;
  LoadedPlugin<Scheduler> scheduler_;
  LoadedPlugin<KVCacheManager> kv_cache_;
  LoadedPlugin<Sampler> sampler_;
  std::unique_ptr<WatchedScheduler> watched_;
  VirtualClock clock_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace tenon::cuda::test
