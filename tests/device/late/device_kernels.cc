#include "tests/device/late/device_kernels.h"

#include <algorithm>
#include <cstring>

#include "core/base/result.h"

namespace tenon::test {

Status PlanMemory::allocate(LateDevice& on, uint64_t plan_bytes, uint64_t workspace_bytes) {
  bytes = plan_bytes;
  for (std::byte*& memory : pinned) memory = on.memory.pinned.allocate(bytes);
  device = on.memory.device.allocate(bytes);
  workspace = on.memory.device.allocate(workspace_bytes);
  if (pinned[1] != nullptr && device != nullptr && workspace != nullptr) return {};
  return out_of_memory("the device has no room for plans");
}

Status PlanMemory::bring(LateDevice& on, DeviceQueue queue, uint32_t turn,
                         const KernelPlanOut& out) {
  phases = out.phases;
  plan = queue == nullptr ? pinned[turn] : device;
  if (out.plan_bytes > bytes) return internal("a plan is larger than its kernel said");
  if (queue == nullptr) return {};
  on.queue.push("a plan's copy",
                [to = device, from = pinned[turn], used = out.plan_bytes, all = bytes] {
                  std::memcpy(to, from, used);
                  std::memset(to + used, 0xff, all - used);
                  return Status();
                });
  return {};
}

Status DeviceAttention::load(const AttentionKernels& kernels, const DeviceKernelsSetup& setup,
                             LateDevice& device) {
  device_ = &device;
  shape_ = setup.shape;
  queue_ = setup.queue;
  for (GroupId group = 0; group < shape_->group_count; ++group) {
    if (shape_->groups[group].kind != KvKind::recurrent) groups_.push_back(group);
  }
  serving_.emplace_back().kernel = kernels.prefill.kernel;
  if (kernels.decode.kernel != kernels.prefill.kernel) {
    serving_.emplace_back().kernel = kernels.decode.kernel;
  }
  for (Serving& serving : serving_) TENON_RETURN_IF_ERROR(bind(serving, setup));
  return {};
}

Status DeviceAttention::bind(Serving& serving, const DeviceKernelsSetup& setup) {
  AttentionBinding binding;
  binding.model = shape_;
  binding.groups = groups_;
  binding.storage = setup.storage;
  binding.max_rows = setup.max_rows;
  binding.max_sequences = setup.max_sequences;
  binding.space = setup.space;
  TENON_RETURN_IF_ERROR(serving.kernel->bind(binding));
  serving.groups.resize(shape_->group_count);
  for (const GroupId group : groups_) {
    TENON_RETURN_IF_ERROR(serving.groups[group].allocate(
        *device_, serving.kernel->plan_bytes(group), serving.kernel->workspace_bytes(group)));
  }
  return {};
}

Status DeviceAttention::plan(const BatchView& batch, uint32_t turn) {
  for (Serving& serving : serving_) serving.sequences.clear();
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const bool decodes = batch.sequences[i].rows <= batch.sequences[i].drafts + 1;
    (decodes ? serving_.back() : serving_.front()).sequences.push_back(i);
  }
  for (Serving& serving : serving_) {
    for (const GroupId group : groups_) {
      PlanMemory& memory = serving.groups[group];
      memory.phases = 0;
      if (serving.sequences.empty()) continue;
      KernelPlanOut out;
      TENON_RETURN_IF_ERROR(
          serving.kernel->plan({group, &batch, serving.sequences, memory.pinned[turn]}, out));
      TENON_RETURN_IF_ERROR(memory.bring(*device_, queue_, turn, out));
    }
  }
  return {};
}

// Phase by phase over all kernels: what one of them stores the other may read.
Status DeviceAttention::run(AttentionCall call) {
  const GroupId group = shape_->layers[call.layer].group;
  call.queue = queue_;
  uint32_t phases = 0;
  for (const Serving& serving : serving_) {
    phases = std::max(phases, serving.groups[group].phases);
  }
  for (uint32_t phase = 0; phase < phases; ++phase) {
    for (const Serving& serving : serving_) {
      const PlanMemory& memory = serving.groups[group];
      if (phase >= memory.phases) continue;
      call.plan = memory.plan;
      call.workspace = memory.workspace;
      TENON_RETURN_IF_ERROR(serving.kernel->run(call, phase, {}));
    }
  }
  return {};
}

std::string DeviceAttention::numerics() const {
  std::string text(serving_.front().kernel->numerics());
  if (serving_.size() > 1) text += "+" + std::string(serving_.back().kernel->numerics());
  return text;
}

Status DeviceStates::load(StateKernel* kernel, const DeviceKernelsSetup& setup,
                          LateDevice& device) {
  device_ = &device;
  shape_ = setup.shape;
  queue_ = setup.queue;
  kernel_ = kernel;
  for (GroupId group = 0; group < shape_->group_count; ++group) {
    if (shape_->groups[group].kind == KvKind::recurrent) groups_.push_back(group);
  }
  if (groups_.empty()) return {};
  if (kernel == nullptr) return unsupported("the model keeps states; no state kernel was given");
  StateBinding binding;
  binding.model = shape_;
  binding.groups = groups_;
  binding.storage = setup.states;
  binding.parameters = setup.state_parameters;
  binding.max_rows = setup.max_rows;
  binding.max_sequences = setup.max_sequences;
  binding.space = setup.space;
  TENON_RETURN_IF_ERROR(kernel->bind(binding));
  memory_.resize(shape_->group_count);
  for (const GroupId group : groups_) {
    TENON_RETURN_IF_ERROR(
        memory_[group].allocate(device, kernel->plan_bytes(group), kernel->workspace_bytes(group)));
  }
  return {};
}

Status DeviceStates::plan(const BatchView& batch, uint32_t turn) {
  for (const GroupId group : groups_) {
    PlanMemory& memory = memory_[group];
    KernelPlanOut out;
    TENON_RETURN_IF_ERROR(kernel_->plan({group, &batch, memory.pinned[turn]}, out));
    TENON_RETURN_IF_ERROR(memory.bring(*device_, queue_, turn, out));
  }
  return {};
}

Status DeviceStates::run(StateCall call) {
  const PlanMemory& memory = memory_[shape_->layers[call.layer].state_group];
  call.plan = memory.plan;
  call.workspace = memory.workspace;
  call.queue = queue_;
  for (uint32_t phase = 0; phase < memory.phases; ++phase) {
    TENON_RETURN_IF_ERROR(kernel_->run(call, phase, {}));
  }
  return {};
}

}  // namespace tenon::test
