#include "core/engine/answers/answer_kind.h"

#include "core/engine/answers/beams/beam_answer.h"
#include "core/engine/answers/diffusion/diffusion_answer.h"
#include "core/engine/answers/pooled_answer.h"
#include "core/engine/answers/token_answer.h"
#include "core/engine/step/context.h"

namespace tenon {

uint32_t AnswerKind::rows_ahead() const {
  const bool undivided = generated() + sequence_.undrawn == 0;
  return undivided ? sequence_.request->request.samples : 1;
}

uint32_t AnswerKind::generated() const {
  return sequence_.known - sequence_.prompt_tokens;
}

uint32_t AnswerKind::served() const {
  return sequence_.known;
}

Status AnswerKind::release() {
  Status status = context_.parts.kv_cache->release(sequence_.id, ReleaseHow::recompute);
  if (status.ok()) context_.table.preempt(sequence_);
  return status;
}

std::unique_ptr<AnswerKind> make_answer(EngineContext& context, Sequence& sequence) {
  RequestState& state = *sequence.request;
  if (state.request.pooling != Pooling::none) {
    return std::make_unique<PooledAnswer>(context, sequence);
  }
  if (context.parts.mask_token != kNoToken) {
    return std::make_unique<DiffusionAnswer>(context, sequence);
  }
  if (state.request.beams == 0) return std::make_unique<TokenAnswer>(context, sequence);
  begin_beam_group(state, sequence);
  return std::make_unique<BeamAnswer>(context, sequence, BeamPath());
}

}  // namespace tenon
