// The attention and state kernels of a loaded model on a device: their plans, and where they lie.
//
// A plan is written into pinned memory, of which there is one for each of two steps, so that a step
// may be planned while the one before it is in flight. From there its leading bytes are copied by
// the queue to a place on the device that never changes; the rest of that place is overwritten with
// ones, so that a kernel which reads more than it said is found out. On the host (queue null)
// nothing is copied.
#pragma once

#include <tenon/attention.h>
#include <tenon/state.h>

#include <span>
#include <vector>

#include "core/exec/executor.h"
#include "tests/device/late/late_device.h"

namespace tenon::test {

// What a kernel needs for one group.
struct PlanMemory {
  std::byte* pinned[2] = {};  // by step, in turns
  std::byte* device = nullptr;
  uint64_t bytes = 0;
  void* workspace = nullptr;
  // Of the step planned last: where kernels find the plan, and 0 phases where there is nothing to
  // do.
  const void* plan = nullptr;
  uint32_t phases = 0;

  Status allocate(LateDevice& device, uint64_t plan_bytes, uint64_t workspace_bytes);
  Status bring(LateDevice& device, DeviceQueue queue, uint32_t turn, const KernelPlanOut& out);
};

struct DeviceKernelsSetup {
  const ModelShape* shape = nullptr;
  std::span<const KvGroupStorage> storage;
  std::span<const StateStorage> states;
  std::span<const std::span<const TensorView>> state_parameters;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  Space space;
  DeviceQueue queue = nullptr;  // as kernels are given it
};

class DeviceAttention {
 public:
  Status load(const AttentionKernels& kernels, const DeviceKernelsSetup& setup, LateDevice& device);
  Status plan(const BatchView& batch, uint32_t turn);
  // All phases of one layer, enqueued.
  Status run(AttentionCall call);
  std::string numerics() const;

 private:
  struct Serving {
    AttentionKernel* kernel = nullptr;
    std::vector<PlanMemory> groups;   // [group_count]
    std::vector<uint32_t> sequences;  // of the step
  };
  Status bind(Serving& serving, const DeviceKernelsSetup& setup);

  LateDevice* device_ = nullptr;
  const ModelShape* shape_ = nullptr;
  DeviceQueue queue_ = nullptr;
  std::vector<GroupId> groups_;
  std::vector<Serving> serving_;  // one for all, or prompts' and the others'
};

class DeviceStates {
 public:
  // `kernel` may be null: then no layer may keep a state.
  Status load(StateKernel* kernel, const DeviceKernelsSetup& setup, LateDevice& device);
  Status plan(const BatchView& batch, uint32_t turn);
  Status run(StateCall call);

 private:
  LateDevice* device_ = nullptr;
  const ModelShape* shape_ = nullptr;
  DeviceQueue queue_ = nullptr;
  StateKernel* kernel_ = nullptr;
  std::vector<GroupId> groups_;
  std::vector<PlanMemory> memory_;  // [group_count]
};

}  // namespace tenon::test
