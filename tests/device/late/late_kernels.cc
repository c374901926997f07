#include "tests/device/late/late_kernels.h"

#include <cstring>

#include "core/base/result.h"

namespace tenon::test {
namespace {

Status check_space(Space space) {
  if (space == kDeviceSpace) return {};
  return unsupported("a kernel for the late device was bound to another space");
}

// What a device would read as garbage, or not at all.
Status check_call(LateDevice& device, DeviceQueue queue,
                  std::initializer_list<std::pair<const char*, const void*>> pointers) {
  if (queue != device.queue.handle()) return internal("a call names a queue of another device");
  for (const auto& [what, data] : pointers) {
    if (data == nullptr || device.memory.device.contains(data)) continue;
    return internal(std::string(what) + " of a call on the device is not in its memory");
  }
  return {};
}

Status check_job(LateDevice& device, const LinearJob& job, DeviceQueue queue) {
  return check_call(device, queue,
                    {{"a packed weight", job.packed},
                     {"a second packed weight", job.packed_second},
                     {"prepared rows", job.prepared},
                     {"the chosen rows", job.rows.data()},
                     {"the count of rows", job.rows_used},
                     {"y", job.y},
                     {"the rows of y", job.y_rows.data()},
                     {"the factors of rows", job.row_scale},
                     {"a bias", job.bias}});
}

}  // namespace

Status LateLinear::bind(const LinearLimits& limits) noexcept {
  TENON_RETURN_IF_ERROR(check_space(limits.space));
  LinearLimits inside = limits;
  inside.space = Space();
  return inner_.bind(inside);
}

Status LateLinear::pack(const WeightView& weight, void* packed, Slice slice) noexcept {
  return device_.queue.run_now("pack", [=, this] { return inner_.pack(weight, packed, slice); });
}

Status LateLinear::gather(const GatherCall& call, Slice slice) noexcept {
  TENON_RETURN_IF_ERROR(check_call(
      device_, call.queue,
      {{"a packed weight", call.packed}, {"rows to gather", call.rows.data()}, {"out", call.out}}));
  GatherCall inside = call;
  inside.queue = nullptr;
  device_.queue.push("gather", [=, this] { return inner_.gather(inside, slice); });
  return {};
}

Status LateLinear::prepare(const PrepareCall& call, Slice slice) noexcept {
  TENON_RETURN_IF_ERROR(check_call(device_, call.queue,
                                   {{"a packed weight", call.packed},
                                    {"x", call.x},
                                    {"the rows of x", call.x_rows.data()},
                                    {"prepared rows", call.prepared}}));
  PrepareCall inside = call;
  inside.queue = nullptr;
  device_.queue.push("prepare", [=, this] { return inner_.prepare(inside, slice); });
  return {};
}

Status LateLinear::run(std::span<const LinearJob> jobs, WorkRange range,
                       DeviceQueue queue) noexcept {
  for (const LinearJob& job : jobs) TENON_RETURN_IF_ERROR(check_job(device_, job, queue));
  device_.queue.push("linear",
                     [this, range, copies = std::vector<LinearJob>(jobs.begin(), jobs.end())] {
                       return inner_.run(copies, range, nullptr);
                     });
  return {};
}

Status LateAttention::bind(const AttentionBinding& binding) noexcept {
  TENON_RETURN_IF_ERROR(check_space(binding.space));
  binding_ = binding;
  AttentionBinding inside = binding;
  inside.space = Space();
  TENON_RETURN_IF_ERROR(inner_.bind(inside));
  groups_.clear();
  groups_.resize(binding.model->group_count);
  const HostServices& host = device_.services();
  for (const GroupId id : binding.groups) {
    Group& group = groups_[id];
    const uint32_t block_tokens = binding.storage[id].block_tokens;
    group.limits = {binding.max_rows, binding.max_sequences,
                    binding.model->context_tokens / block_tokens + 2};
    const uint64_t bytes = inner_.plan_bytes(id);
    group.host_plan.resize(bytes + 64);
    group.device_plan = host.allocate(host.context, kDeviceSpace, bytes, 64);
    if (group.device_plan == nullptr) return out_of_memory("the device has no room for a plan");
  }
  return {};
}

uint64_t LateAttention::plan_bytes(GroupId group) const noexcept {
  return flat_batch_bytes(groups_[group].limits);
}

Status LateAttention::plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept {
  Group& group = groups_[plan.group];
  AttentionPlan inside = plan;
  const auto address = reinterpret_cast<uintptr_t>(group.host_plan.data());
  inside.plan = reinterpret_cast<void*>((address + 63) / 64 * 64);
  TENON_RETURN_IF_ERROR(inner_.plan(inside, out));
  out.plan_bytes =
      write_flat_batch(*plan.batch, plan.group, plan.sequences, group.limits, plan.plan);
  if (out.plan_bytes == 0) return internal("a batch is larger than was agreed upon");
  group.step_id = plan.batch->step_id;
  group.phases = out.phases;
  return {};
}

Status LateAttention::plan_on_device(GroupId id, const void* plan, uint64_t step_id,
                                     uint32_t phases) {
  Group& group = groups_[id];
  if (!group.batch.read(plan, id)) return internal("the plan never came to the device");
  if (group.batch.batch().step_id != step_id) {
    return internal("the plan on the device is that of step " +
                    std::to_string(group.batch.batch().step_id) + " – expected step " +
                    std::to_string(step_id));
  }
  KernelPlanOut out;
  TENON_RETURN_IF_ERROR(
      inner_.plan({id, &group.batch.batch(), group.batch.chosen(), group.device_plan}, out));
  if (out.phases == phases) return {};
  return internal("a plan has other phases on the device than on the host");
}

Status LateAttention::run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept {
  TENON_RETURN_IF_ERROR(check_call(device_, call.queue,
                                   {{"q", call.q},
                                    {"k", call.k},
                                    {"v", call.v},
                                    {"out", call.out},
                                    {"the plan", call.plan},
                                    {"the workspace", call.workspace}}));
  const GroupId id = binding_.model->layers[call.layer].group;
  const uint64_t step_id = groups_[id].step_id;
  const uint32_t phases = groups_[id].phases;
  device_.queue.push("attention", [=, this, inside = call]() mutable {
    if (phase == 0) {
      TENON_RETURN_IF_ERROR(plan_on_device(id, inside.plan, step_id, phases));
    }
    inside.plan = groups_[id].device_plan;
    inside.queue = nullptr;
    return inner_.run(inside, phase, slice);
  });
  return {};
}

Status LateState::bind(const StateBinding& binding) noexcept {
  TENON_RETURN_IF_ERROR(check_space(binding.space));
  tensors_.clear();
  for (const std::span<const TensorView>& of_layer : binding.parameters) {
    auto& copies = tensors_.emplace_back(of_layer.begin(), of_layer.end());
    for (TensorView& tensor : copies) {
      const uint64_t elements = tensor.shape[0] * tensor.stride[0];
      tensor.data = device_.upload(tensor.data, elements * dtype_bits(tensor.dtype) / 8);
      tensor.space = kDeviceSpace;
      if (tensor.data == nullptr) return out_of_memory("the device has no room for parameters");
    }
  }
  parameters_.assign(tensors_.begin(), tensors_.end());
  StateBinding inside = binding;
  inside.parameters = parameters_;
  inside.space = Space();
  return inner_.bind(inside);
}

Status LateState::run(const StateCall& call, uint32_t phase, Slice slice) noexcept {
  TENON_RETURN_IF_ERROR(
      check_call(device_, call.queue,
                 {{"out", call.out}, {"the plan", call.plan}, {"the workspace", call.workspace}}));
  for (const void* input : call.inputs) {
    TENON_RETURN_IF_ERROR(check_call(device_, call.queue, {{"an input", input}}));
  }
  device_.queue.push("state", [=, this, inside = call,
                               inputs = std::vector<const void*>(call.inputs.begin(),
                                                                 call.inputs.end())]() mutable {
    inside.inputs = inputs;
    inside.queue = nullptr;
    return inner_.run(inside, phase, slice);
  });
  return {};
}

}  // namespace tenon::test
