// Kernels for the late device: real kernels of the host whose calls are put on the device's queue.
//
// What they prove: an executor that gets on with them follows the boundary of a device. All that a
// call points to lies in device memory, which the host cannot touch; calls and jobs are copied when
// they are made, what they point to is read when the work runs; plans reach the device as bytes,
// copied by the executor before the first `run`; sums are those of the kernel inside, so bits can
// be compared.
// What they do not prove: that the kernel inside could run on a device itself. Its scratch memory
// is host memory that nobody else reads, and a plan of the attention kernel inside holds addresses.
// So LateAttention has a plan of its own, the batch as flat bytes, and lets the kernel inside plan
// again on the device, in device memory.
#pragma once

#include <tenon/attention.h>
#include <tenon/linear.h>
#include <tenon/state.h>

#include <string>
#include <vector>

#include "tests/device/flat_batch.h"
#include "tests/device/late/late_device.h"

namespace tenon::test {

class LateLinear final : public LinearKernel {
 public:
  LateLinear(LinearKernel& inner, LateDevice& device) : inner_(inner), device_(device) {}

  Status bind(const LinearLimits& limits) noexcept override;
  EpilogueMask epilogues() const noexcept override { return inner_.epilogues(); }
  Status accepts(const WeightView& weight) const noexcept override {
    return inner_.accepts(weight);
  }
  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    return inner_.packed_bytes(weight);
  }
  // Has no queue: the weights have been read when it returns.
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override;
  Status gather(const GatherCall& call, Slice slice) noexcept override;
  Preparation preparation(const WeightView& weight) const noexcept override {
    return inner_.preparation(weight);
  }
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept override {
    return inner_.prepared_bytes(preparation, rows);
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override;
  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) noexcept override;
  std::string_view numerics() const noexcept override { return inner_.numerics(); }

 private:
  LinearKernel& inner_;
  LateDevice& device_;
};

class LateAttention final : public AttentionKernel {
 public:
  LateAttention(AttentionKernel& inner, LateDevice& device) : inner_(inner), device_(device) {}

  Status bind(const AttentionBinding& binding) noexcept override;
  uint64_t plan_bytes(GroupId group) const noexcept override;
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return inner_.workspace_bytes(group);
  }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override;
  std::string_view numerics() const noexcept override { return inner_.numerics(); }

 private:
  struct Group {
    FlatBatchLimits limits;
    std::vector<std::byte> host_plan;  // of the kernel inside, to learn the number of phases
    uint64_t step_id = 0;              // planned last
    uint32_t phases = 0;
    void* device_plan = nullptr;  // of the kernel inside
    FlatBatch batch;              // what the device read; of the queue's thread
  };
  Status plan_on_device(GroupId group, const void* plan, uint64_t step_id, uint32_t phases);

  AttentionKernel& inner_;
  LateDevice& device_;
  AttentionBinding binding_;
  std::vector<Group> groups_;  // [group_count]
};

// The kernel inside has plans without addresses, so they are passed on.
class LateState final : public StateKernel {
 public:
  LateState(StateKernel& inner, LateDevice& device) : inner_(inner), device_(device) {}

  Status accepts(const LayerShape& layer) const noexcept override { return inner_.accepts(layer); }
  // Uploads the recurrence's parameters.
  Status bind(const StateBinding& binding) noexcept override;
  uint64_t plan_bytes(GroupId group) const noexcept override { return inner_.plan_bytes(group); }
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return inner_.workspace_bytes(group);
  }
  Status plan(const StatePlan& plan, KernelPlanOut& out) noexcept override {
    return inner_.plan(plan, out);
  }
  Status run(const StateCall& call, uint32_t phase, Slice slice) noexcept override;
  std::string_view numerics() const noexcept override { return inner_.numerics(); }

 private:
  StateKernel& inner_;
  LateDevice& device_;
  std::vector<std::vector<TensorView>> tensors_;         // [layer_count]
  std::vector<std::span<const TensorView>> parameters_;  // [layer_count]
};

}  // namespace tenon::test
