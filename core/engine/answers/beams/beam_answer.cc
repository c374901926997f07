#include "core/engine/answers/beams/beam_answer.h"

#include <algorithm>

#include "core/engine/answers/beams/beam_groups.h"
#include "core/engine/answers/beams/beam_memory.h"

namespace tenon {

// Beams give their text when the search is done, and nothing drafts for them.
BeamAnswer::BeamAnswer(EngineContext& context, Sequence& sequence, BeamPath its_path)
    : TokenAnswer(context, sequence,
                  {.has_text = false,
                   .drafted = false,
                   .device_draw = false,
                   .plan_ahead = false,
                   .grouped = true,
                   .own_kv = sequence.request->request.prompt_logprobs}),
      path(std::move(its_path)) {}

void BeamAnswer::before_plan() {
  const bool ready = sequence_.stop_at > 0 && sequence_.computed == sequence_.stop_at;
  if (ready) BeamGroups(context_).rejoin(*sequence_.request);
}

bool BeamAnswer::held_back() const {
  const BeamGroup& group = *sequence_.request->beam_group;
  return path.sampled || (group.trunk != nullptr && group.trunk != &sequence_);
}

// Those held back count with the first of their group that is not.
uint32_t BeamAnswer::rows_ahead() const {
  const std::span<Sequence* const> beams = group();
  const bool undivided = generated() + sequence_.undrawn == 0;
  if (undivided && beams.size() == 1) return sequence_.request->request.beams;
  const auto held = [](const Sequence* beam) { return beam->answer->held_back(); };
  const auto first = std::ranges::find_if_not(beams, held);
  if (first == beams.end() || *first != &sequence_) return 1;
  return 1 + static_cast<uint32_t>(std::ranges::count_if(beams, held));
}

std::span<Sequence* const> BeamAnswer::group() const {
  return sequence_.request->beam_group->running;
}

uint64_t BeamAnswer::fork_tokens(uint32_t block_tokens) const {
  return tenon::fork_tokens(sequence_, block_tokens);
}

Status BeamAnswer::release() {
  return release_group(*sequence_.request->beam_group, *context_.parts.kv_cache, context_.table);
}

uint32_t BeamAnswer::tops() const {
  return candidates_per_beam(*sequence_.request, *context_.parts.shape);
}

void BeamAnswer::take(Step& step, Share& share, uint32_t) {
  BeamGroups(context_).take_result(step, share);
}

void BeamAnswer::advance(Step& step) {
  RequestState& state = *sequence_.request;
  if (!state.beam_group->ready || state.live_samples == 0) return;
  state.beam_group->ready = false;
  BeamGroups(context_).advance(step, state);
}

}  // namespace tenon
