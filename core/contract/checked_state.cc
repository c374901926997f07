#include "core/contract/checked_state.h"

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr uint32_t kMostPhases = 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 42;  // of a plan or a workspace
constexpr size_t kMostNumerics = 200;

}  // namespace

CheckedState::CheckedState(StateKernel& plugin, const std::string& name)
    : plugin_(plugin),
      accepts_(name_call("accepts", "state '" + name + "'")),
      bind_(name_call("bind", "state '" + name + "'")),
      sizes_(name_call("workspace_bytes", "state '" + name + "'")),
      plan_(name_call("plan", "state '" + name + "'")),
      run_(name_call("run", "state '" + name + "'")),
      numerics_(one_line(plugin.numerics(), kMostNumerics)) {}

Status CheckedState::accepts(const LayerShape& layer) const noexcept {
  const RunningCall call(accepts_);
  return readable(plugin_.accepts(layer));
}

Status CheckedState::bind(const StateBinding& binding) noexcept {
  Status status;
  {
    const RunningCall call(bind_);
    status = readable(plugin_.bind(binding));
  }
  if (!status.ok()) return status;
  numerics_ = one_line(plugin_.numerics(), kMostNumerics);
  const RunningCall call(sizes_);
  rooms_.clear();
  for (const GroupId group : binding.groups) {
    const Room room{plugin_.plan_bytes(group), plugin_.workspace_bytes(group)};
    if (room.plan_bytes > kMostBytes || room.workspace_bytes > kMostBytes) {
      return broken_promise(
          room.plan_bytes > kMostBytes ? "plan_bytes" : "workspace_bytes",
          "wants " +
              std::to_string(room.plan_bytes > kMostBytes ? room.plan_bytes
                                                          : room.workspace_bytes) +
              " bytes for KV group " + std::to_string(group),
          "at most " + std::to_string(kMostBytes));
    }
    rooms_.emplace(group, room);
  }
  return {};
}

uint64_t CheckedState::plan_bytes(GroupId group) const noexcept {
  const auto found = rooms_.find(group);
  return found == rooms_.end() ? 0 : found->second.plan_bytes;
}

uint64_t CheckedState::workspace_bytes(GroupId group) const noexcept {
  const auto found = rooms_.find(group);
  return found == rooms_.end() ? 0 : found->second.workspace_bytes;
}

Status CheckedState::plan(const StatePlan& plan, KernelPlanOut& out) noexcept {
  Status status;
  {
    const RunningCall call(plan_);
    status = readable(plugin_.plan(plan, out));
  }
  if (!status.ok()) return status;
  if (out.phases < 1 || out.phases > kMostPhases) {
    return broken_promise("plan", "made a step of " + std::to_string(out.phases) + " phases",
                          "1 to " + std::to_string(kMostPhases));
  }
  if (const uint64_t room = plan_bytes(plan.group); out.plan_bytes > room) {
    return broken_promise("plan", "wrote " + std::to_string(out.plan_bytes) + " bytes",
                          "at most " + std::to_string(room) + ", for which it asked");
  }
  return {};
}

Status CheckedState::run(const StateCall& call, uint32_t phase, Slice slice) noexcept {
  const RunningCall running(run_);
  return readable(plugin_.run(call, phase, slice));
}

}  // namespace tenon
