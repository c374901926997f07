#include "core/contract/checked_attention.h"

#include <utility>

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kMostNumerics = 200;

}  // namespace

CheckedAttention::CheckedAttention(AttentionKernel& plugin, const std::string& name,
                                   CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      bind_(name_call("bind", "attention '" + name + "'")),
      sizes_(name_call("workspace_bytes", "attention '" + name + "'")),
      plan_(name_call("plan", "attention '" + name + "'")),
      run_(name_call("run", "attention '" + name + "'")),
      add_(name_call("attention_scores", "attention '" + name + "'")),
      numerics_(one_line(plugin.numerics(), kMostNumerics)) {}

Status CheckedAttention::bind(const AttentionBinding& binding) noexcept {
  Status status;
  {
    CheckedCall call(bind_, checks_);
    status = call.readable(plugin_.bind(binding));
  }
  if (!status.ok()) return status;
  numerics_ = one_line(plugin_.numerics(), kMostNumerics);
  if (numerics_.empty()) return no_numerics();
  if (binding.space.kind == SpaceKind::host) model_ = binding.model;
  element_bytes_ = dtype_bits(binding.dtype) / 8;
  CheckedCall call(sizes_, checks_);
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
    CheckedCall call(plan_, checks_);
    status = call.readable(plugin_.plan(plan, out));
  }
  if (!status.ok()) return status;
  return rooms_.check(plan.group, out);
}

LentRows& CheckedAttention::lend(const AttentionCall& call) const {
  thread_local LentRows lent;
  lent.begin();
  if (checks_ != CallChecks::more || model_ == nullptr) return lent;
  const LayerShape& layer = model_->layers[call.layer];
  const KvGroup& group = model_->groups[layer.group];
  const auto add = [&](const void* rows, uint64_t heads, uint64_t dim) {
    const uint64_t bytes = heads * dim * element_bytes_;
    lent.add_rows(rows, bytes, bytes, call.padded_rows);
  };
  add(call.q, layer.query_heads, group.k_dim);
  add(call.k, group.kv_heads, group.k_dim);
  add(call.v, group.kv_heads, group.v_dim);
  return lent;
}

Status CheckedAttention::run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept {
  const LentRows& lent = lend(call);
  Status status;
  {
    CheckedCall running(run_, checks_);
    status = running.readable(plugin_.run(call, phase, slice));
  }
  return lent.unchanged() ? std::move(status) : wrote_into("run", "q, k or v");
}

const AttentionScores* CheckedAttention::scores(const AttentionScores& offered) noexcept {
  offered_ = &offered;
  scores_.self = this;
  scores_.add = [](void* self, const AttentionCall& call, std::span<uint64_t* const> sums,
                   Slice slice) noexcept {
    const auto& checked = *static_cast<CheckedAttention*>(self);
    CheckedCall running(checked.add_, checked.checks_);
    return running.readable(checked.offered_->add(checked.offered_->self, call, sums, slice));
  };
  return &scores_;
}

}  // namespace tenon
