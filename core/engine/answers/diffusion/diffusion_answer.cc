#include "core/engine/answers/diffusion/diffusion_answer.h"

#include <algorithm>

#include "core/engine/answers/diffusion/diffusion_check.h"
#include "core/engine/answers/no_token.h"
#include "core/engine/records/digest.h"

namespace tenon {
namespace {

DiffusionPlan plan_of(const EngineContext& context, const Request& request) {
  return plan_diffusion(request, answer_room(request.prompt.size(), context.request_limits()));
}

void note_digest(const Step& step, const Share& share) {
  if (step.digests.empty()) return;
  uint64_t& digest = share.sequence->digest;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    const SampleRow& row = step.rows[share.first_result + i];
    digest = extend_digest(digest, row.logits, row.vocabulary);
  }
}

}  // namespace

// What a step computes depends on masks that are still to change.
DiffusionAnswer::DiffusionAnswer(EngineContext& context, Sequence& sequence)
    : TokenAnswer(context, sequence,
                  {.device_draw = false, .plan_ahead = false, .whole = true, .own_kv = true}),
      canvas_(plan_of(context, sequence.request->request), sequence.prompt_tokens,
              context.parts.mask_token, sequence.request->request.sampling.seed) {
  sequence.known = sequence.request->limit_tokens;
  sequence.tokens.resize(sequence.known, context.parts.mask_token);
}

uint32_t DiffusionAnswer::served() const {
  return sequence_.prompt_tokens + canvas_.revealed();
}

RowUse DiffusionAnswer::use_of(uint32_t position) const {
  return canvas_.wants(sequence_.known_tokens(), position) ? RowUse::drawn : RowUse::none;
}

// At least one, so that samplers say how likely their token is.
uint32_t DiffusionAnswer::tops() const {
  return std::max(TokenAnswer::tops(), 1u);
}

// What stands before a mask is its history: the prompt, tokens and further masks. Nothing that
// looks back on it is allowed (request_check.h).
SampleRow DiffusionAnswer::row_of(const Step& step, const Share& share, uint32_t i) const {
  const uint32_t batch_row = step.batch.logits_rows[share.first_logits + i];
  const uint32_t position = share.base + batch_row - share.first_row;
  SampleRow row = sample_row_of(sequence_, sequence_.known_tokens().first(position), position);
  row.key.seed = canvas_.seed();
  return row;
}

// Every mask that was looked at has a token. As many as the step is to end take theirs.
void DiffusionAnswer::take(Step& step, Share& share, uint32_t) {
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    if (step.results[share.first_result + i].token != kNoToken) continue;
    return no_token(context_, sequence_, step.rows[share.first_result + i]);
  }
  note_digest(step, share);
  const bool by_chance = canvas_.plan().remasking == Remasking::random;
  const auto rows = std::span(step.rows).subspan(share.first_result, share.logits_rows);
  const auto results = std::span(step.results).subspan(share.first_result, share.logits_rows);
  std::vector<double> confidence;
  for (size_t i = 0; i < rows.size(); ++i) {
    confidence.push_back(by_chance ? canvas_.chance(rows[i].key.position)
                                   : static_cast<double>(results[i].logprob));
  }
  const uint32_t wanted = sequence_.request->request.sampling.logprobs;
  for (const uint32_t i : most_confident(confidence, canvas_.count())) {
    const SampleResult& result = results[i];
    Canvas::Kept kept;
    if (wanted > 0) {
      kept.logprob = result.logprob;
      kept.rank = result.rank;
      const auto top = result.top.first(std::min<size_t>(result.top_count, wanted));
      kept.top.assign(top.begin(), top.end());
    }
    sequence_.tokens[rows[i].key.position] = result.token;
    canvas_.keep(rows[i].key.position, std::move(kept));
    ++share.result_count;
  }
  canvas_.end_step();
}

// As far as no token before them is still to come.
void DiffusionAnswer::deliver(Step& step, const Share& share) {
  std::optional<FinishReason> end;
  const std::string* stop = nullptr;
  tokens_.clear();
  while (!end && canvas_.next_is_final(sequence_.known_tokens())) {
    const TokenId token = sequence_.tokens[sequence_.prompt_tokens + canvas_.delivered()];
    const Canvas::Kept& kept = canvas_.deliver();
    sequence_.record.token_ns.push_back(context_.parts.clock->now_ns());
    tokens_.push_back({token, kept.logprob, kept.rank, kept.top});
    end = write(token, stop);
  }
  hand_over(step, share, end, stop);
}

}  // namespace tenon
