#include "core/engine/step/results.h"

#include <algorithm>
#include <numeric>

#include "core/engine/answers/row_draws.h"
#include "core/engine/step/drafts/draft_runner.h"
#include "core/engine/step/joining.h"

namespace tenon {
namespace {

bool was_drawn(const Step& step, const Share& share) {
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    if (drawn_token(step.output, share.first_logits + i) != kNoToken) return true;
  }
  return false;
}

}  // namespace

void Results::sample(Step& step) {
  grammar_masks_.fail(step);
  prompt_scores_.score(step);
  fork_samples(context_, step);
  choose(step);
  build_rows(step);
  if (!drawing_.empty()) draw(step);
  if (!verifying_.empty()) drafts_.verify(step, verifying_);
  if (!drawn_.empty()) drafts_.take_drawn(step, drawn_);
  for (const Share& share : step.shares) {
    if (share.sequence->state == SequenceState::ended) continue;
    share.sequence->answer->gather(step, share);
  }
}

// Who is sampled: plain sequences, then those with drafts, then those whose tokens came in place of
// logits.
void Results::choose(Step& step) {
  drawing_.clear();
  verifying_.clear();
  drawn_.clear();
  for (Share& share : step.shares) {
    if (share.logits_rows == 0 || share.sequence->state == SequenceState::ended) continue;
    const bool drawn = was_drawn(step, share);
    (drawn ? drawn_ : share.drafts > 0 ? verifying_ : drawing_).push_back(&share);
  }
}

// A row for each token that may be drawn: a share with drafts has one more than drafts.
void Results::build_rows(Step& step) {
  size_t row_count = 0, top_count = 0;
  for (const std::vector<Share*>* shares : {&drawing_, &verifying_, &drawn_}) {
    for (const Share* share : *shares) {
      row_count += share->logits_rows;
      top_count += size_t{share->logits_rows} * share->sequence->answer->tops();
    }
  }
  step.rows.clear();
  step.rows.reserve(row_count);
  step.results.assign(row_count, {});
  step.digests.assign(context_.options.logits_digest ? row_count : 0, 0);
  top_.resize(top_count);
  TokenLogprob* top = top_.data();
  for (Share* share : drawing_) add_rows(step, *share, top, false);
  for (Share* share : verifying_) add_rows(step, *share, top, false);
  for (Share* share : drawn_) add_rows(step, *share, top, true);
}

// One token that was drawn already needs nothing of its row, but for a digest of it.
void Results::add_rows(Step& step, Share& share, TokenLogprob*& top, bool drawn) {
  const AnswerKind& answer = *share.sequence->answer;
  const bool alone = drawn && share.logits_rows == 1 && answer.traits.device_draw;
  const bool needed = !alone || !step.digests.empty();
  const uint32_t tops = answer.tops();
  share.first_result = static_cast<uint32_t>(step.rows.size());
  share.result_count = 0;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    SampleRow row = needed ? answer.row_of(step, share, i) : SampleRow();
    row.logits = step.output.logits + (share.first_logits + i) * step.output.vocabulary;
    row.vocabulary = static_cast<uint32_t>(step.output.vocabulary);
    if (share.masked) row.allowed = step.masks.data() + (share.first_mask + i) * step.mask_words;
    step.results[step.rows.size()].top = {top, tops};
    top += tops;
    step.rows.push_back(row);
  }
}

void Results::draw(Step& step) {
  size_t count = 0;  // a row each, or one for each mask that a step of a diffusion looks at
  for (const Share* share : drawing_) count += share->logits_rows;
  const Status status =
      sampler_.sample(std::span(step.rows).first(count), std::span(step.results).first(count));
  if (!status.ok()) return sampler_.failed(drawing_, status);
  for (Share* share : drawing_) {
    if (share->sequence->state == SequenceState::ended) continue;
    share->sequence->answer->take(step, *share, 1);
  }
}

void Results::resolve(Step& step) {
  const EngineParts& parts = context_.parts;
  for (const Share& share : step.shares) {
    if (share.parent != nullptr || share.sequence->state == SequenceState::ended) continue;
    Status status = parts.scores == nullptr ? Status() : score_share(step, share);
    if (status.ok()) status = resolve_share(share);
    if (!status.ok()) {
      context_.fail_request(
          *share.sequence->request,
          plugin_fault("kv_cache", parts.kv_cache_name, "could not resolve a step", status));
    }
  }
  for (const Share& share : step.shares) {
    if (share.parent == nullptr || share.sequence->state == SequenceState::ended) continue;
    place_fork(context_, *share.sequence, *share.parent, share.parent->computed);
  }
}

Status Results::resolve_share(const Share& share) {
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  Sequence& sequence = *share.sequence;
  // The next step of what is computed as a whole does so anew.
  kept_.resize(sequence.answer->traits.whole ? 0 : share.tokens);
  std::iota(kept_.begin(), kept_.end(), 0u);
  for (uint32_t i = 0; i < share.accepted; ++i) {
    kept_.push_back(share.tokens + share.accepted_draft(i));
  }
  sequence.computed = share.base + static_cast<uint32_t>(kept_.size());
  const EngineParts& parts = context_.parts;
  TENON_RETURN_IF_ERROR(parts.kv_cache->resolve({.seq = sequence.id,
                                                 .tokens = sequence.known_tokens(),
                                                 .base = share.base,
                                                 .kept = kept_,
                                                 .computed = sequence.computed,
                                                 .in_flight = sequence.in_flight}));
  if (parts.draft_runner == nullptr || share.parents.empty()) return {};
  return parts.draft_runner->forget_behind(sequence.id, share.base + share.tokens);
}

void Results::deliver(Step& step) {
  for (const Share& share : step.shares) share.sequence->answer->advance(step);
  for (const Share& share : step.shares) {
    if (share.sequence->state == SequenceState::ended) continue;
    share.sequence->answer->deliver(step, share);
  }
}

}  // namespace tenon
