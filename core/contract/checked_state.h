// A state kernel whose answers are checked. `run` may be called by several threads at once.
#pragma once

#include <tenon/state.h>

#include <string>

#include "core/contract/contract.h"
#include "core/contract/kernel_rooms.h"

namespace tenon {

class CheckedState final : public StateKernel {
 public:
  CheckedState(StateKernel& plugin, const std::string& name, CallChecks checks = CallChecks::usual);

  Status accepts(const LayerShape& layer) const noexcept override;
  Status bind(const StateBinding& binding) noexcept override;
  uint64_t plan_bytes(GroupId group) const noexcept override;
  uint64_t workspace_bytes(GroupId group) const noexcept override;
  Status plan(const StatePlan& plan, KernelPlanOut& out) noexcept override;
  Status run(const StateCall& call, uint32_t phase, Slice slice) noexcept override;
  std::string_view numerics() const noexcept override { return numerics_; }

 private:
  StateKernel& plugin_;
  const CallChecks checks_;
  const CallName accepts_, bind_, sizes_, plan_, run_;
  std::string numerics_;
  KernelRooms rooms_;
};

}  // namespace tenon
