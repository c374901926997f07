#include <tenon/sdk/scheduler/admission.h>

#include <algorithm>

namespace tenon::sdk {

const SequenceView* Admission::first_interrupted(const PlanBuilder& plan) {
  const Policy policy = plan.policy();
  const SequenceView* first = nullptr;
  for (const SequenceView& waiting :
       plan.view().waiting.first(std::min(kLooks, plan.view().waiting.size()))) {
    if (waiting.known_tokens == waiting.prompt_tokens) continue;
    const bool before =
        first == nullptr || policy_key(policy, waiting, 0) < policy_key(policy, *first, 0);
    if (before) first = &waiting;
  }
  return first;
}

bool Admission::held_back(const PlanBuilder& plan) {
  const double wanted = options_.waiting_served_ratio * static_cast<double>(plan.running());
  if (static_cast<double>(plan.view().waiting.size()) >= wanted) return false;
  if (held_steps_ >= options_.max_hold_steps) return false;
  ++held_steps_;
  return true;
}

bool Admission::defer(const PlanBuilder& plan, const SequenceView& waiting, uint32_t deferred) {
  const bool alone = plan.empty() && plan.running() == 0;
  if (alone) return false;
  if (deferred > 0) return true;
  if (patient_seq_ != waiting.seq) patient_plans_ = 0;
  patient_seq_ = waiting.seq;
  return ++patient_plans_ <= kPatience;
}

uint64_t Admission::reserve_for_running(const PlanBuilder& plan) {
  const SchedulerView& view = plan.view();
  uint64_t reserve = watermark_tokens(plan);
  if (plan.partial_prompts() == 0) return reserve;
  for (const SequenceView& sequence : view.running) {
    const uint32_t left = plan.left(sequence);
    if (left > 1) reserve += plan.ledger().cost(sequence.seq, left);
  }
  return reserve;
}

uint64_t Admission::watermark_tokens(const PlanBuilder& plan) {
  const SchedulerView& view = plan.view();
  block_tokens_ = std::max(block_tokens_, plan.ledger().cost(view.waiting.front().seq, 1));
  const auto tokens =
      static_cast<uint64_t>(options_.watermark * static_cast<double>(view.kv_tokens));
  return block_tokens_ == 0 ? tokens : tokens / block_tokens_ * block_tokens_;
}

}  // namespace tenon::sdk
