// What the tests of the late device run: a small model, its KV geometry, and machines that are
// loaded with both, each with kernels of its own.
#pragma once

#include <tenon/attention.h>
#include <tenon/linear.h>
#include <tenon/state.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/executor.h"
#include "tests/device/late/kernel_device.h"
#include "tests/device/late/late_kernels.h"
#include "tests/device/toy_state.h"
#include "tests/fake_device/rig/loaded_plugin.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {

struct WorldOptions {
  FlatConfig config = tiny_config();
  std::string linear = "dense";
  DType dtype = DType::f32;    // of the weights
  std::string quantised = {};  // their format instead: all matrices made of random blocks of it
  DType kv_dtype = DType::f32;
  uint32_t block_tokens = 16;
  uint32_t kv_tokens = 640;   // of each group
  uint32_t swap_tokens = 96;  // likewise
  uint32_t state_slots = 40;
  // Layers that also keep a recurrent state ("test.decay"), all in one group.
  std::vector<LayerId> recurrent = {};
  bool two_kernels = false;  // one attention kernel for prompts, one for single rows
  uint32_t max_rows = 96;
  uint32_t max_sequences = 8;
};

class SmallWorld {
 public:
  explicit SmallWorld(WorldOptions options);

  const WorldOptions options;
  std::unique_ptr<Model> model;
  ModelShape shape;
  KvGeometry geometry;
  // [layer_count] of the recurrence.
  std::vector<std::span<const TensorView>> state_parameters;

 private:
  void add_recurrence();

  std::unique_ptr<ModelShapeStorage> attention_only_;
  std::vector<KvGroup> groups_;
  std::vector<LayerShape> layers_;
  std::vector<KvGroupGeometry> sizes_;
  std::vector<float> decay_, gain_;
  std::vector<TensorView> tensors_;
};

// Where a machine computes.
//   cpu     the CPU executor
//   host    the kernel device, run on the host
//   late    … on the late device; nothing runs before it is waited for
//   uneven  … on the late device, which catches up now and then
enum class Side : uint8_t { cpu, host, late, uneven };

// An executor with all that it needs, loaded. Fails the test where it does not load.
class Machine {
 public:
  Machine(const SmallWorld& world, Side side, uint64_t seed = 1);

  Executor& executor() { return *executor_; }
  Executor* operator->() { return executor_.get(); }
  LateDevice& device() { return *device_; }

 private:
  bool late() const { return side_ == Side::late || side_ == Side::uneven; }
  void make_executor(const SmallWorld& world, uint64_t seed);
  AttentionKernels attention(const SmallWorld& world);
  LinearKernel* linear(const SmallWorld& world);

  Side side_;
  LoadedPlugin<LinearKernel> linear_plugin_;
  LoadedPlugin<AttentionKernel> attention_plugin_, second_attention_plugin_;
  ToyState toy_state_;
  std::unique_ptr<LateDevice> device_;
  std::unique_ptr<LateLinear> late_linear_;
  std::unique_ptr<LateAttention> late_attention_, second_late_attention_;
  std::unique_ptr<LateState> late_state_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace tenon::test
