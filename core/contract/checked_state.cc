#include "core/contract/checked_state.h"

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kMostNumerics = 200;

}  // namespace

CheckedState::CheckedState(StateKernel& plugin, const std::string& name, CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      accepts_(name_call("accepts", "state '" + name + "'")),
      bind_(name_call("bind", "state '" + name + "'")),
      sizes_(name_call("workspace_bytes", "state '" + name + "'")),
      plan_(name_call("plan", "state '" + name + "'")),
      run_(name_call("run", "state '" + name + "'")),
      numerics_(one_line(plugin.numerics(), kMostNumerics)) {}

Status CheckedState::accepts(const LayerShape& layer) const noexcept {
  CheckedCall call(accepts_, checks_);
  return call.readable(plugin_.accepts(layer));
}

Status CheckedState::bind(const StateBinding& binding) noexcept {
  Status status;
  {
    CheckedCall call(bind_, checks_);
    status = call.readable(plugin_.bind(binding));
  }
  if (!status.ok()) return status;
  numerics_ = one_line(plugin_.numerics(), kMostNumerics);
  if (numerics_.empty()) return no_numerics();
  CheckedCall call(sizes_, checks_);
  return rooms_.ask(plugin_, binding.groups);
}

uint64_t CheckedState::plan_bytes(GroupId group) const noexcept {
  return rooms_.plan_bytes(group);
}

uint64_t CheckedState::workspace_bytes(GroupId group) const noexcept {
  return rooms_.workspace_bytes(group);
}

Status CheckedState::plan(const StatePlan& plan, KernelPlanOut& out) noexcept {
  Status status;
  {
    CheckedCall call(plan_, checks_);
    status = call.readable(plugin_.plan(plan, out));
  }
  if (!status.ok()) return status;
  return rooms_.check(plan.group, out);
}

Status CheckedState::run(const StateCall& call, uint32_t phase, Slice slice) noexcept {
  CheckedCall running(run_, checks_);
  return running.readable(plugin_.run(call, phase, slice));
}

}  // namespace tenon
