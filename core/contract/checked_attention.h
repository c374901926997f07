// An attention kernel whose answers are checked. `run` may be called by several threads at once.
#pragma once

#include <tenon/attention.h>

#include <string>

#include "core/contract/contract.h"
#include "core/contract/kernel_rooms.h"
#include "core/contract/lent_rows.h"

namespace tenon {

class CheckedAttention final : public AttentionKernel {
 public:
  CheckedAttention(AttentionKernel& plugin, const std::string& name,
                   CallChecks checks = CallChecks::usual);

  Status bind(const AttentionBinding& binding) noexcept override;
  uint64_t plan_bytes(GroupId group) const noexcept override;
  uint64_t workspace_bytes(GroupId group) const noexcept override;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override;
  std::string_view numerics() const noexcept override { return numerics_; }

  // What the plugin offers as extension, which outlives this, behind the same checks.
  const AttentionScores* scores(const AttentionScores& offered) noexcept;

 private:
  // What a call on the host lends to be read, where calls are looked at closely.
  LentRows& lend(const AttentionCall& call) const;

  AttentionKernel& plugin_;
  const CallChecks checks_;
  const CallName bind_, sizes_, plan_, run_, add_;
  const AttentionScores* offered_ = nullptr;
  AttentionScores scores_;
  std::string numerics_;
  KernelRooms rooms_;
  const ModelShape* model_ = nullptr;  // where what is lent lies on the host
  uint64_t element_bytes_ = 0;
};

}  // namespace tenon
