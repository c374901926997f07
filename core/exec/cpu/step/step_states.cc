#include "core/exec/cpu/step/step_states.h"

#include "core/base/machine/canary.h"

namespace tenon {
namespace {

constexpr uint32_t kMaxPhases = 16;

Result<HostMemory> with_canary(uint64_t bytes, const std::string& what) {
  TENON_ASSIGN_OR_RETURN(
      HostMemory memory,
      HostMemory::allocate(saturating_add(bytes, kCanaryBytes), HostMemory::Backing::lazy,
                           what + " of the state kernel"));
  set_canary(memory.data() + bytes);
  return memory;
}
bool wrote_behind(const HostMemory& memory) {
  return !canary_lives(memory.data() + memory.bytes() - kCanaryBytes);
}

}  // namespace

Status StepStates::named(const Status& status) const {
  if (status.ok()) return {};
  return with_context(state_.name.empty() ? "state" : "state \"" + state_.name + "\"", status);
}

Status StepStates::load(const NamedState& kernel, const Model& model, const ModelShape& shape,
                        std::span<const StateStorage> storage,
                        const StepAttention::Limits& limits) {
  state_ = kernel;
  shape_ = &shape;
  groups_.clear();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    if (shape.groups[group].kind == KvKind::recurrent) groups_.push_back(group);
  }
  memory_.clear();
  memory_.resize(shape.group_count);
  if (groups_.empty()) return {};
  if (state_.kernel == nullptr) {
    return internal("the executor 'cpu' was loaded without a kernel for recurrent layers");
  }
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    if (shape.layers[layer].state_group == kNoGroup) continue;
    TENON_RETURN_IF_ERROR(named(state_.kernel->accepts(shape.layers[layer])));
  }
  parameters_ = StateParameters(model);
  TENON_RETURN_IF_ERROR(named(state_.kernel->bind({.model = &shape,
                                                   .groups = groups_,
                                                   .storage = storage,
                                                   .parameters = parameters_.views(),
                                                   .max_rows = limits.max_rows,
                                                   .max_sequences = limits.max_sequences,
                                                   .slices = limits.slices,
                                                   .dtype = DType::f32,
                                                   .space = {}})));
  for (const GroupId group : groups_) {
    GroupMemory& memory = memory_[group];
    TENON_ASSIGN_OR_RETURN(memory.plan, with_canary(state_.kernel->plan_bytes(group), "the plan"));
    TENON_ASSIGN_OR_RETURN(memory.workspace,
                           with_canary(state_.kernel->workspace_bytes(group), "the workspace"));
  }
  return {};
}

Status StepStates::plan(const BatchView& batch) {
  batch_ = &batch;
  for (const GroupId group : groups_) {
    GroupMemory& memory = memory_[group];
    KernelPlanOut out;
    TENON_RETURN_IF_ERROR(named(state_.kernel->plan({group, &batch, memory.plan.data()}, out)));
    if (wrote_behind(memory.plan) || wrote_behind(memory.workspace)) {
      return named(internal("plan or run wrote behind the memory that it had asked for"));
    }
    if (out.phases < 1 || out.phases > kMaxPhases) {
      return named(internal("a step of " + std::to_string(out.phases) +
                            " phases was planned; expected 1 to 16"));
    }
    memory.phases = out.phases;
  }
  return {};
}

Status StepStates::run(StateCall call, uint32_t phase, Slice slice) const {
  const GroupMemory& memory = memory_[shape_->layers[call.layer].state_group];
  call.plan = memory.plan.data();
  call.workspace = memory.workspace.data();
  call.padded_rows = batch_->padded_rows;
  call.padded_sequences = batch_->padded_sequences;
  return named(state_.kernel->run(call, phase, slice));
}

std::string StepStates::numerics() const {
  return groups_.empty() ? std::string() : std::string(state_.kernel->numerics());
}

std::vector<MemoryPart> StepStates::workspaces() const {
  std::vector<MemoryPart> parts;
  for (const GroupId group : groups_) {
    parts.push_back({memory_[group].workspace.data(), memory_[group].workspace.bytes()});
    parts.push_back({memory_[group].plan.data(), memory_[group].plan.bytes()});
  }
  return parts;
}

}  // namespace tenon
