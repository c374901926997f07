// What the overlapped loop does for the step after the one that the device computes.
#include <algorithm>

#include "core/engine/engine.h"
#include "core/engine/step/eviction.h"

namespace tenon {

// A step can be planned while the device computes the one before it where all that is open about
// that one is which token each of its sequences draws. A drafter must see the token, a second model
// shares the device.
bool Engine::may_plan_ahead(const Step& step) const {
  const EngineParts& parts = context_.parts;
  if (step.empty() || parts.draft_runner != nullptr || context_.alone) return false;
  if (tiering_.has_arrivals()) return false;
  // What goes where a manager evicts by weight follows from what this step's rows see.
  const auto evicts_after = [&parts](const Share& share) {
    return share.rows() == tokens_alike(parts.eviction, share.base);
  };
  if (parts.scores != nullptr && std::ranges::any_of(step.shares, evicts_after)) return false;
  const auto settled = [](const Sequence* one) { return one->answer->traits.plan_ahead; };
  if (!std::ranges::all_of(context_.table.running(), settled)) return false;
  return std::none_of(step.shares.begin(), step.shares.end(), [](const Share& share) {
    const RequestState& request = *share.sequence->request;
    const bool forks = request.forked_samples < request.request.samples;
    return share.drafts > 0 || (share.logits_rows > 0 && (forks || share.sequence->in_drafter));
  });
}

void Engine::plan_ahead(const Step& step, Step& next) {
  for (const Share& share : step.shares) {
    share.sequence->in_flight = share.tokens;
    share.sequence->undrawn = share.logits_rows > 0 ? 1 : 0;
  }
  begin(next, Planning::ahead);
  prepare(next, Planning::ahead);
  forward_.stage(next);
}

// Those that `step` has ended have no part in `next`; of the others every token is known now.
// Returns whether anything was launched.
bool Engine::launch_ahead(const Step& step, Step& next) {
  for (const Share& share : step.shares) {
    Sequence& sequence = *share.sequence;
    if (sequence.state == SequenceState::ended || share.result_count == 0) continue;
    sequence.ending = sequence.answer->at_end(step, share);
  }
  const bool failed = step.empty();
  const size_t ended = std::erase_if(next.shares, [](const Share& share) {
    return share.sequence->state == SequenceState::ended || share.sequence->ending;
  });
  if (failed) {
    take_back(next);
  } else if (ended > 0) {
    forward_.assemble(next);
    forward_.stage(next);
  } else {
    next.batch_builder.fill_in_tokens(next.shares);
  }
  if (next.empty()) {
    // What its plan has preempted or moved still counts.
    next.record.rows = 0;
    context_.totals.add(next.record);
    return false;
  }
  for (const Share& share : next.shares) share.sequence->in_flight = share.rows();
  tiering_.watch(next);
  forward_.launch(next);
  return true;
}

// Nothing of a step is run that was planned on what another would leave, and that one has failed.
void Engine::take_back(Step& step) {
  for (const Share& share : step.shares) {
    const Status status = context_.parts.kv_cache->trim(share.sequence->id, 0);
    if (status.ok()) continue;
    context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                "could not take a grant back", status));
  }
  step.shares.clear();
}

}  // namespace tenon
