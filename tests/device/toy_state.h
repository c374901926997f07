// A recurrence for tests, the kind "test.decay": for each row and element
//   h ← decay · h + x
//   y = gain · h
// Inputs: x [rows, width]. Parameters: decay [width], gain [width]. State: h [width]. state_dims:
// width. All f32.
#pragma once

#include <tenon/state.h>

#include <string_view>

namespace tenon::test {

inline constexpr std::string_view kToyStateKind = "test.decay";

// Plans have no addresses in them.
class ToyState final : public StateKernel {
 public:
  Status accepts(const LayerShape& layer) const noexcept override;
  Status bind(const StateBinding& binding) noexcept override;
  uint64_t plan_bytes(GroupId group) const noexcept override;
  uint64_t workspace_bytes(GroupId group) const noexcept override;
  Status plan(const StatePlan& plan, KernelPlanOut& out) noexcept override;
  // Two phases: rows, then the states that the step leaves, which the rows kept in the workspace.
  Status run(const StateCall& call, uint32_t phase, Slice slice) noexcept override;
  std::string_view numerics() const noexcept override { return "toy_state"; }

 private:
  float* state(const StateCall& call, BlockId slot) const;

  StateBinding binding_;
};

}  // namespace tenon::test
