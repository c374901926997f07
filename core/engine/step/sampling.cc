#include "core/engine/step/sampling.h"

#include <cmath>
#include <string>

#include "core/base/quote.h"
#include "core/engine/answers/grammar_masks.h"
#include "core/engine/answers/permitted.h"
#include "core/engine/answers/row_draws.h"
#include "core/engine/records/digest.h"

namespace tenon {

void Sampling::sample(Step& step) {
  prompt_scores_.score(step);
  fork_samples(step);
  choose(step);
  build_rows(step);
  if (!drawing_.empty()) draw(step);
  if (!verifying_.empty()) verify(step);
  if (!drawn_.empty()) take_drawn(step);
}

// A prompt is computed: from here on its request is as many sequences as it has samples. All draw
// their first token from the same row, each with its own key.
void Sampling::fork_samples(Step& step) {
  const size_t parents = step.shares.size();
  for (size_t i = 0; i < parents; ++i) {
    if (step.shares[i].logits_rows == 0 || step.shares[i].drafts > 0) continue;
    Sequence& parent = *step.shares[i].sequence;
    RequestState& request = *parent.request;
    while (request.forked_samples < request.request.samples &&
           parent.state != SequenceState::ended) {
      Sequence& child =
          context_.table.add(request, request.forked_samples++, parent.record.arrival_ns);
      if (Status status = admission_.introduce_fork(child, parent); !status.ok()) {
        context_.fail_request(request, message_of(status));
        break;
      }
      Share share = step.shares[i];
      share.sequence = &child;
      share.parent = &parent;
      step.shares.push_back(share);
    }
  }
}

// Who is sampled: plain sequences, then those with drafts, then those whose tokens came in place of
// logits.
void Sampling::choose(Step& step) {
  drawing_.clear();
  verifying_.clear();
  drawn_.clear();
  for (Share& share : step.shares) {
    if (share.logits_rows == 0 || share.sequence->state == SequenceState::ended) continue;
    const bool drawn = was_drawn(step, share);
    (drawn ? drawn_ : share.drafts > 0 ? verifying_ : drawing_).push_back(&share);
  }
}

// How many of the most likely tokens are asked for at each row.
uint32_t Sampling::tops_of(const RequestState& request) const {
  if (context_.parts.mask_token != kNoToken) return Denoising::tops_of(request.request);
  if (request.beam_group != nullptr) return candidates_per_beam(request, *context_.parts.shape);
  return request.request.sampling.logprobs;
}

// A row for each token that may be drawn: a share with drafts has one more than drafts.
void Sampling::build_rows(Step& step) {
  size_t row_count = 0, top_count = 0;
  for (const std::vector<Share*>* shares : {&drawing_, &verifying_, &drawn_}) {
    for (const Share* share : *shares) {
      row_count += share->logits_rows;
      top_count += size_t{share->logits_rows} * tops_of(*share->sequence->request);
    }
  }
  step.rows.clear();
  step.rows.reserve(row_count);
  step.results.assign(row_count, {});
  step.digests.assign(context_.options.logits_digest ? row_count : 0, 0);
  top_.resize(top_count);
  TokenLogprob* top = top_.data();
  for (Share* share : drawing_) add_rows(step, *share, top);
  for (Share* share : verifying_) add_rows(step, *share, top);
  for (Share* share : drawn_) add_rows(step, *share, top);
}

void Sampling::add_rows(Step& step, Share& share, TokenLogprob*& top) {
  const Sequence& sequence = *share.sequence;
  if (sequence.canvas != nullptr) return Denoising::add_rows(step, share, top);
  const uint32_t tops = tops_of(*sequence.request);
  share.first_result = static_cast<uint32_t>(step.rows.size());
  share.result_count = 0;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    // Of a chain, the drafts before a row stand right behind what is known. Of a tree, the sampler
    // adds those on the way to the row.
    const uint32_t history = sequence.known + (share.parents.empty() ? i : 0);
    SampleRow row = sample_row_of(sequence, {sequence.tokens.data(), history},
                                  sequence.known + share.depth_of(i));
    row.logits = step.output.logits + (share.first_logits + i) * step.output.vocabulary;
    row.vocabulary = static_cast<uint32_t>(step.output.vocabulary);
    if (share.masked) row.allowed = step.masks.data() + (share.first_mask + i) * step.mask_words;
    step.results[step.rows.size()].top = {top, tops};
    top += tops;
    step.rows.push_back(row);
  }
}

void Sampling::draw(Step& step) {
  size_t count = 0;  // a row each, or one for each mask that a step of a diffusion looks at
  for (const Share* share : drawing_) count += share->logits_rows;
  const Status status =
      sampler_.sample(std::span(step.rows).first(count), std::span(step.results).first(count));
  if (!status.ok()) return sampler_failed(drawing_, status);
  for (Share* share : drawing_) {
    if (share->sequence->state == SequenceState::ended) continue;
    if (share->sequence->canvas != nullptr) {
      denoise(step, *share);
    } else if (share->sequence->beam != nullptr) {
      beam_groups_.take_result(step, *share);
    } else {
      take_tokens(step, *share, 1);
    }
  }
}

void Sampling::verify(Step& step) {
  verify_rows_.clear();
  verify_results_.clear();
  // A sample of the same request may have taken one along.
  std::erase_if(verifying_,
                [](const Share* share) { return share->sequence->state == SequenceState::ended; });
  size_t drafts = 0;
  for (const Share* share : verifying_) drafts += share->drafts;
  paths_.resize(drafts);
  std::span<uint32_t> room = paths_;
  for (Share* share : verifying_) {
    const Sequence& sequence = *share->sequence;
    VerifyRows& rows = verify_rows_.emplace_back();
    rows.rows = std::span(step.rows).subspan(share->first_result, share->logits_rows);
    rows.drafts = std::span(sequence.tokens).subspan(sequence.known, share->drafts);
    rows.parents = share->parents;
    rows.draft_probs = share->draft_probs;
    VerifyResult& result = verify_results_.emplace_back();
    result.tokens = std::span(step.results).subspan(share->first_result, share->logits_rows);
    result.path = room.first(share->drafts);
    room = room.subspan(share->drafts);
    if (!share->parents.empty()) share->path = result.path;
  }
  const Status status = sampler_.verify(verify_rows_, verify_results_);
  if (!status.ok()) return sampler_failed(verifying_, status);
  for (size_t i = 0; i < verifying_.size(); ++i) {
    if (verifying_[i]->sequence->state == SequenceState::ended) continue;
    take_tokens(step, *verifying_[i], verify_results_[i].count);
  }
}

bool Sampling::was_drawn(const Step& step, const Share& share) const {
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    if (drawn_token(step.output, share.first_logits + i) != kNoToken) return true;
  }
  return false;
}

void Sampling::take_drawn(Step& step) {
  size_t drafts = 0;
  for (const Share* share : drawn_) drafts += share->drafts;
  paths_.resize(drafts);
  std::span<uint32_t> room = paths_;
  for (Share* share : drawn_) {
    if (share->sequence->state == SequenceState::ended) continue;
    const std::span<uint32_t> path = room.first(share->drafts);
    room = room.subspan(share->drafts);
    const uint32_t count = walk_drawn(step, *share, path);
    if (!share->parents.empty()) share->path = path;
    if (share->sequence->state != SequenceState::ended) take_tokens(step, *share, count);
  }
}

// Drafts are accepted as long as they are what was drawn. Each row was drawn from as if there were
// none; where the executor could not tell, the sampler does. How many tokens there are.
uint32_t Sampling::walk_drawn(Step& step, Share& share, std::span<uint32_t> path) {
  const Sequence& sequence = *share.sequence;
  const auto drafts = std::span(sequence.tokens).subspan(sequence.known, share.drafts);
  uint32_t count = 0;
  for (uint32_t row = 0;;) {
    const size_t at = share.first_result + row;
    // Results stand as tokens do, rows as drafts.
    SampleResult& result = step.results[share.first_result + count];
    result.token = drawn_token(step.output, share.first_logits + row);
    if (result.token == kNoToken) {
      const Status status = sampler_.sample({&step.rows[at], 1}, {&result, 1});
      if (!status.ok()) {
        sampler_failed({&share}, status);
        return 0;
      }
    }
    if (result.token == kNoToken) return count;
    const uint32_t draft = share.draft_behind(row, drafts, result.token);
    if (draft < share.drafts) path[count] = draft;
    ++count;
    if (draft == share.drafts) return count;
    row = draft + 1;
  }
}

// A row gave no token: the request bans all there are, or its logits are at fault, or what became
// of them.
void Sampling::no_token(Sequence& sequence, const SampleRow& row) {
  const Request& request = sequence.request->request;
  TokenBits left = permitted_tokens(request.lists, row.history, row.vocabulary);
  for (size_t i = 0; i < left.size() && row.allowed != nullptr; ++i) left[i] &= row.allowed[i];
  if (is_empty(left)) {
    const bool may_end = row.key.position - row.prompt_tokens >= request.min_tokens;
    return context_.refuse_request(*sequence.request,
                                   nothing_left(request, may_end, row.key.position));
  }
  uint32_t finite = 0;
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    finite += ((left[token / 64] >> token % 64) & 1) != 0 && std::isfinite(row.logits[token]);
  }
  std::string text = "sampler '" + context_.parts.sampler_name + "' found no token at position " +
                     std::to_string(row.key.position);
  if (finite == 0) {
    text +=
        " – a row needs at least one finite logit that is allowed – the model's weights are at "
        "fault, or executor and kernels: " +
        context_.parts.executor->numerics();
  } else {
    text += ", though " + std::to_string(finite) + " logits are finite and allowed";
    if (!request.lists.logit_bias.empty() || request.sampling.repetition_penalty != 1.0f) {
      return context_.refuse_request(*sequence.request,
                                     text +
                                         " – logit_bias and repetition_penalty of the request "
                                         "leave none of them finite – use smaller ones");
    }
    text += " – the sampler is at fault";
  }
  context_.fail_request(*sequence.request, text);
}

// Every mask that was looked at has a token, whether it is kept or not.
void Sampling::denoise(Step& step, Share& share) {
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    if (step.results[share.first_result + i].token != kNoToken) continue;
    return no_token(*share.sequence, step.rows[share.first_result + i]);
  }
  denoising_.take(step, share);
}

// Appends what was drawn to what is known. `count` tokens, of which all but the last are drafts.
void Sampling::take_tokens(Step& step, Share& share, uint32_t count) {
  Sequence& sequence = *share.sequence;
  if (count == 0 || step.results[share.first_result].token == kNoToken) {
    return no_token(sequence, step.rows[share.first_result]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const TokenId token = step.results[share.first_result + i].token;
    if (Status followed = follow_grammar(sequence, token); !followed.ok()) {
      return context_.fail_request(*sequence.request, message_of(followed));
    }
    if (ends_with_grammar(sequence)) count = i + 1;
  }
  share.result_count = count;
  share.accepted = count - 1;
  if (!share.path.empty()) share.path = share.path.first(share.accepted);
  sequence.tokens.resize(sequence.known);
  uint64_t digest = sequence.digest;
  for (uint32_t i = 0; i < count; ++i) {
    sequence.tokens.push_back(step.results[share.first_result + i].token);
    // Rows of a tree stand as its drafts do; from here on each stands with its token. Paths rise.
    if (i > 0) {
      step.rows[share.first_result + i] =
          step.rows[share.first_result + share.accepted_draft(i - 1) + 1];
    }
    if (step.digests.empty()) continue;
    // Now: the logits are the executor's again when the next step is launched.
    const SampleRow& row = step.rows[share.first_result + i];
    step.digests[share.first_result + i] = digest =
        extend_digest(digest, row.logits, row.vocabulary);
  }
  sequence.known += count;
  sequence.undrawn = 0;
  sequence.record.accepted_tokens += share.accepted;
  step.record.accepted_drafts += share.accepted;
  context_.totals.drafts.add(share.drafts, share.accepted);
}

void Sampling::sampler_failed(const std::vector<Share*>& shares, const Status& status) {
  context_.fail_sequences(sequences_of(shares),
                          plugin_fault("sampler", context_.parts.sampler_name, "failed", status));
}

}  // namespace tenon
