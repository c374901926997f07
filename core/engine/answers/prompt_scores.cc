#include "core/engine/answers/prompt_scores.h"

#include <algorithm>
#include <string>

#include "core/engine/answers/no_token.h"

namespace tenon {

void PromptScores::score(Step& step) {
  scored_.clear();
  rows_.clear();
  size_t top_count = 0;
  for (Share& share : step.shares) {
    if (share.score_rows == 0 || share.sequence->state == SequenceState::ended) continue;
    add_rows(step, share);
    scored_.push_back(&share);
    top_count += size_t{share.score_rows} * share.sequence->request->request.sampling.logprobs;
  }
  if (scored_.empty()) return;
  top_.resize(top_count);
  results_.assign(rows_.size(), {});
  TokenLogprob* top = top_.data();
  size_t row = 0;
  for (const Share* share : scored_) {
    const uint32_t wanted = share->sequence->request->request.sampling.logprobs;
    for (uint32_t i = 0; i < share->score_rows; ++i, top += wanted)
      results_[row++].top = {top, wanted};
  }
  if (Status status = sampler_.sample(rows_, results_); !status.ok()) {
    return sampler_.failed(scored_, status);
  }
  row = 0;
  for (Share* share : scored_) {
    const auto results = std::span(results_).subspan(row, share->score_rows);
    const auto rows = std::span(rows_).subspan(row, share->score_rows);
    row += share->score_rows;
    if (share->sequence->state == SequenceState::ended) continue;
    if (const std::string why = fault_of(rows, results); !why.empty()) {
      context_.fail_request(*share->sequence->request, why);
    } else {
      deliver(*share, results);
    }
  }
}

// The first row that says nothing of its token.
std::string PromptScores::fault_of(std::span<const SampleRow> rows,
                                   std::span<const SampleResult> results) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (results[i].token != kNoToken) continue;
    std::string why = no_finite_logit(context_, rows[i]);
    if (!why.empty()) return why;
  }
  return "";
}

void PromptScores::add_rows(const Step& step, Share& share) {
  const Sequence& sequence = *share.sequence;
  for (uint32_t i = 0; i < share.score_rows; ++i) {
    const uint32_t position = share.score_from + i;
    SampleRow row;
    row.seq = sequence.id;
    row.logits = step.output.logits + (share.first_score + i) * step.output.vocabulary;
    row.vocabulary = static_cast<uint32_t>(step.output.vocabulary);
    row.history = {sequence.tokens.data(), position};
    row.prompt_tokens = position;
    row.score = sequence.tokens[position];
    row.key.position = position;
    rows_.push_back(row);
  }
}

// What another sample of the request, or the step before this one, delivered is not said again.
void PromptScores::deliver(const Share& share, std::span<const SampleResult> results) {
  RequestState& state = *share.sequence->request;
  const uint32_t known = std::max(state.scored, share.score_from) - share.score_from;
  if (known >= results.size()) return;
  results = results.subspan(known);
  tokens_.clear();
  for (const SampleResult& result : results) {
    tokens_.push_back({result.token, result.logprob, result.rank,
                       result.top.first(std::min<size_t>(result.top_count, result.top.size()))});
  }
  const uint32_t first = share.score_from + known;
  if (RequestSink* sink = state.request.sink.get()) sink->on_prompt({state.id, first, tokens_});
  state.scored = share.score_from + share.score_rows;
}

}  // namespace tenon
