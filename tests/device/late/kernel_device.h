// An executor on a device that is far away: the decoder of a real model through the boundary's
// kernels, over memory that the host may not touch and a queue that runs late. It is what an
// executor for a GPU has to be, without the GPU.
//
// `launch` and `apply` only enqueue; `collect` waits. Two steps may be in flight. The batch that
// kernels plan from is a copy in memory that the device cannot touch, so a plan that points to it
// is found out. Results lie in pinned memory; the next launch overwrites those that were collected.
//
// Made with `host`, the same executor runs kernels of the host: no queue, nothing guarded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/batch_check.h"
#include "core/exec/executor.h"
#include "tests/device/late/device_decoder.h"
#include "tests/device/late/device_kernels.h"
#include "tests/device/late/device_kv.h"
#include "tests/device/late/late_device.h"

namespace tenon::test {

struct KernelDeviceOptions {
  // Kernels are those of the host: they are called with a null queue and work at once. The device
  // must have the pace at_once and no guards.
  bool host = false;
  // For layers with a recurrent state, which is added to what their attention gives.
  StateKernel* state = nullptr;
  std::vector<std::span<const TensorView>> state_parameters;  // [layer_count]
};

class KernelDevice final : public Executor {
 public:
  KernelDevice(LateDevice& device, KernelDeviceOptions options)
      : device_(device), options_(std::move(options)) {}

  std::string_view name() const override { return "kernel_device"; }
  std::span<const Fact> provides() const override;
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return true; }
  uint32_t workers() const override { return 1; }
  Status load(const ExecutorSetup& setup) override;
  Status apply(std::span<const KvMove> moves) override;
  Status launch(const BatchView& batch) override;
  Result<StepOutput> collect(uint64_t step_id) override;
  std::string numerics() const override;
  uint64_t weight_bytes() const override { return decoder_.weights().bytes(); }
  uint64_t kv_bytes() const override { return kv_.bytes(); }
  // Steps that were launched and not collected.
  uint32_t in_flight() const { return turns_[0].in_flight + turns_[1].in_flight; }

 private:
  // What belongs to one step; there are two, used in turns.
  struct Turn {
    uint64_t step_id = 0;
    bool in_flight = false;
    uint64_t ticket = 0;         // of the step's last work
    std::byte* batch = nullptr;  // pageable
    BatchView view;
    std::byte* arrays = nullptr;  // pinned: tokens, positions, rows of logits and hidden states
    StepResults results;
    std::vector<float*> hidden;  // what the output points to
    StepOutput output;
  };
  Status load_turn(Turn& turn);
  BatchView copy_batch(const BatchView& batch, std::byte* to) const;
  void send_arrays(const Turn& turn);
  Status enqueue(Turn& turn, uint32_t index);

  LateDevice& device_;
  KernelDeviceOptions options_;
  const Model* model_ = nullptr;
  const ModelShape* shape_ = nullptr;
  std::vector<KvGroupGeometry> groups_;
  BatchLimits limits_;
  DeviceKv kv_;
  DeviceDecoder decoder_;
  DeviceAttention attention_;
  DeviceStates states_;
  uint64_t batch_bytes_ = 0;
  Turn turns_[2];
  uint32_t next_ = 0;  // the turn of the next step
};

}  // namespace tenon::test
