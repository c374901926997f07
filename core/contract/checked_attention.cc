#include "core/contract/checked_attention.h"

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kMostNumerics = 200;

}  // namespace

CheckedAttention::CheckedAttention(AttentionKernel& plugin, const std::string& name)
    : plugin_(plugin),
      bind_(name_call("bind", "attention '" + name + "'")),
      sizes_(name_call("workspace_bytes", "attention '" + name + "'")),
      plan_(name_call("plan", "attention '" + name + "'")),
      run_(name_call("run", "attention '" + name + "'")),
      numerics_(one_line(plugin.numerics(), kMostNumerics)) {}

Status CheckedAttention::bind(const AttentionBinding& binding) noexcept {
  Status status;
  {
    const RunningCall call(bind_);
    status = readable(plugin_.bind(binding));
  }
  if (!status.ok()) return status;
  numerics_ = one_line(plugin_.numerics(), kMostNumerics);
  if (numerics_.empty()) return no_numerics();
  const RunningCall call(sizes_);
  return rooms_.ask(plugin_, binding.groups);
}

uint64_t CheckedAttention::plan_bytes(GroupId group) const noexcept {
  return rooms_.plan_bytes(group);
}

uint64_t CheckedAttention::workspace_bytes(GroupId group) const noexcept {
  return rooms_.workspace_bytes(group);
}

Status CheckedAttention::plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept {
  Status status;
  {
    const RunningCall call(plan_);
    status = readable(plugin_.plan(plan, out));
  }
  if (!status.ok()) return status;
  return rooms_.check(plan.group, out);
}

Status CheckedAttention::run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept {
  const RunningCall running(run_);
  return readable(plugin_.run(call, phase, slice));
}

}  // namespace tenon
