// A plain class as an AttentionKernel (see <tenon/sdk/adaptor.h>). Missing, `plan` makes steps of
// one phase, and `plan_bytes` and `workspace_bytes` are 0. A method that returns a value may throw
// as well: <tenon/sdk/kernel_adaptor.h> says what happens then.
#pragma once

#include <tenon/attention.h>
#include <tenon/sdk/kernel_adaptor.h>

namespace tenon::sdk {

template <typename Class>
class Adaptor<AttentionKernel, Class> final : public AttentionKernel,
                                              public KernelAdaptorBase<Class> {
 public:
  using KernelAdaptorBase<Class>::KernelAdaptorBase;

  Status bind(const AttentionBinding& binding) noexcept override {
    return this->required(
        [&](auto& made) -> decltype(made.bind(binding)) { return made.bind(binding); });
  }
  uint64_t plan_bytes(GroupId group) const noexcept override {
    return this->template optional_value<Named::kPlanBytes, uint64_t>(
        [&](auto& made) -> decltype(made.plan_bytes(group)) { return made.plan_bytes(group); }, 0);
  }
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return this->template optional_value<Named::kWorkspaceBytes, uint64_t>(
        [&](auto& made) -> decltype(made.workspace_bytes(group)) {
          return made.workspace_bytes(group);
        },
        0);
  }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    return this->template optional<Named::kPlan>(
        [&](auto& made) -> decltype(made.plan(plan, out)) { return made.plan(plan, out); });
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    return this->required([&](auto& made) -> decltype(made.run(call, phase, slice)) {
      return made.run(call, phase, slice);
    });
  }
  std::string_view numerics() const noexcept override {
    return this->template required_value<std::string_view>(
        [&](auto& made) -> decltype(made.numerics()) { return made.numerics(); },
        std::string_view());
  }

 private:
  // Whether the class has a method of that name, whatever it takes.
  struct Named {
    static constexpr bool kPlanBytes = requires { &Class::plan_bytes; };
    static constexpr bool kWorkspaceBytes = requires { &Class::workspace_bytes; };
    static constexpr bool kPlan = requires { &Class::plan; };
  };
};

}  // namespace tenon::sdk
