// The state kernel of a loaded model: its parameters, the memory it works with, and what a step
// asks of it. Nothing of it does anything where no layer has a recurrence.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>
#include <tenon/state.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/exec/cpu/step/step_attention.h"
#include "core/exec/executor.h"
#include "core/exec/host_memory.h"
#include "core/exec/state_parameters.h"

namespace tenon {

class StepStates {
 public:
  // All arguments outlive this. Errors of the kernel are led by `state "cpu"`.
  Status load(const NamedState& kernel, const Model& model, const ModelShape& shape,
              std::span<const StateStorage> storage, const StepAttention::Limits& limits);

  // Once a step, before any `run`; the batch stays valid until the last one.
  Status plan(const BatchView& batch);
  uint32_t phases(LayerId layer) const { return memory_[shape_->layers[layer].state_group].phases; }
  // This slice's share of one phase. A barrier belongs behind each.
  Status run(StateCall call, uint32_t phase, Slice slice) const;

  std::string numerics() const;  // empty without a kernel
  std::vector<MemoryPart> workspaces() const;

 private:
  struct GroupMemory {
    HostMemory plan;
    HostMemory workspace;
    uint32_t phases = 0;
  };
  Status named(const Status& status) const;

  NamedState state_;
  const ModelShape* shape_ = nullptr;
  const BatchView* batch_ = nullptr;
  StateParameters parameters_;
  std::vector<GroupId> groups_;
  std::vector<GroupMemory> memory_;  // [group_count]
};

}  // namespace tenon
