// StateKernel: runs the recurrent layers of a model (state-space and linear-attention layers),
// whose memory is a state of fixed size a sequence instead of K and V a token.
//
// States live in slots that the KV manager hands out (KvTableView of a recurrent group): a step
// starts from one slot, which it never changes, and writes the state after each token count that
// the table names. So the kernel takes no part in rejecting drafts, sharing prefixes, forks and
// preemption: another slot becomes the one to start from.
//
// A kernel promises equal bits for a row whatever else is in the batch and however the sequence was
// cut into steps (else it states the fact numerics.rows = batch). A scan in chunks keeps the
// promise only if every step happens to begin at the start of a chunk.
//
// Plans, workspaces, queues and captured graphs are as in <tenon/attention.h>.
//
// Threads: `bind`, `plan_bytes`, `workspace_bytes` are [control], `plan` is [step], `run` [worker].
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

struct StateStorage {
  std::byte* base = nullptr;  // slot s of layer l: base + s·slot_bytes + LayerShape::state_offset
  uint64_t slot_bytes = 0;
};

struct StateBinding {
  const ModelShape* model = nullptr;
  std::span<const GroupId> groups;        // recurrent ones that this kernel serves
  std::span<const StateStorage> storage;  // [group_count]
  // [layer_count] the recurrence's parameters, as its state_kind says, in host memory; or empty.
  std::span<const std::span<const TensorView>> parameters;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  uint32_t slices = 1;
  DType dtype = DType::f32;  // of inputs and out
  Space space;
};

struct StatePlan {
  GroupId group = 0;
  const BatchView* batch = nullptr;  // stays valid through the step
  void* plan = nullptr;              // plan_bytes(group) of host memory, aligned to 64
};

// One layer's call. If the table has kNoBlock for the start, the state is all zero.
struct StateCall {
  LayerId layer = 0;
  std::span<const void* const> inputs;  // each [rows, …], as the layer's state_kind says
  void* out = nullptr;                  // [rows, …]
  const void* plan = nullptr;
  void* workspace = nullptr;
  uint32_t padded_rows = 0;
  uint32_t padded_sequences = 0;
  DeviceQueue queue = nullptr;
};

class StateKernel {
 public:
  // A null status if this kernel can run the layer, otherwise the reason, in words. [any]
  virtual Status accepts(const LayerShape& layer) const noexcept = 0;
  virtual Status bind(const StateBinding& binding) noexcept = 0;
  virtual uint64_t plan_bytes(GroupId group) const noexcept = 0;
  virtual uint64_t workspace_bytes(GroupId group) const noexcept = 0;
  virtual Status plan(const StatePlan& plan, KernelPlanOut& out) noexcept = 0;
  virtual Status run(const StateCall& call, uint32_t phase, Slice slice) noexcept = 0;
  // Part of the numerics id. Static text.
  virtual std::string_view numerics() const noexcept = 0;

 protected:
  ~StateKernel() = default;
};

}  // namespace tenon
