// From logits to tokens: rows for the sampler, forks, and what it answered.
#include <string>

#include "core/engine/engine.h"

namespace tenon {

void Engine::sample() {
  sampling_.clear();
  verifying_.clear();
  for (Sequence* sequence : in_step_) {
    if (sequence->share.logits_rows == 0) continue;
    (sequence->share.drafts > 0 ? verifying_ : sampling_).push_back(sequence);
  }
  fork_samples();
  build_sample_rows();
  if (!sampling_.empty()) run_sample();
  if (!verifying_.empty()) run_verify();
}

// A prompt is computed: from here on its request is as many sequences as it has samples. All draw
// their first token from the same row, each with its own key.
void Engine::fork_samples() {
  const size_t parents = sampling_.size();
  for (size_t i = 0; i < parents; ++i) {
    Sequence& parent = *sampling_[i];
    RequestState& request = *parent.request;
    while (request.forked_samples < request.request.samples &&
           parent.state != SequenceState::ended) {
      Sequence& child = table_.add(request, request.forked_samples++, parent.record.arrival_ns);
      child.share = parent.share;
      child.share.tokens = child.share.drafts = 0;
      if (Status status = introduce(child, &parent); !status.ok()) {
        fail_request(request, std::string(status.message()));
        break;
      }
      forks_.push_back({&child, &parent});
      sampling_.push_back(&child);
    }
  }
  std::erase_if(sampling_, [](Sequence* s) { return s->state == SequenceState::ended; });
}

// One row for each token that may be drawn: plain sequences first, then those with drafts, of whom
// each has one row more than drafts.
void Engine::build_sample_rows() {
  size_t top_count = 0, row_count = 0;
  const auto count = [&](const std::vector<Sequence*>& sequences) {
    for (Sequence* sequence : sequences) {
      row_count += sequence->share.logits_rows;
      top_count +=
          size_t{sequence->share.logits_rows} * sequence->request->request.sampling.logprobs;
    }
  };
  count(sampling_);
  count(verifying_);
  rows_.clear();
  results_.assign(row_count, {});
  rows_.reserve(row_count);
  top_.resize(top_count);
  TokenLogprob* top = top_.data();
  const auto add = [&](const std::vector<Sequence*>& sequences) {
    for (Sequence* sequence : sequences) add_sample_rows(*sequence, top);
  };
  add(sampling_);
  add(verifying_);
}

void Engine::add_sample_rows(Sequence& sequence, TokenLogprob*& top) {
  const uint32_t logprobs = sequence.request->request.sampling.logprobs;
  StepShare& share = sequence.share;
  share.first_result = static_cast<uint32_t>(rows_.size());
  share.result_count = 0;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    SampleRow row = sample_row_of(sequence, {sequence.tokens.data(), sequence.known + i});
    row.logits = output_.logits + (share.first_logits + i) * output_.vocabulary;
    row.vocabulary = static_cast<uint32_t>(output_.vocabulary);
    results_[rows_.size()].top = {top, logprobs};
    top += logprobs;
    rows_.push_back(row);
  }
}

void Engine::run_sample() {
  Status status;
  {
    Stopwatch watch(*parts_.clock, record_.times.sampler_ns);
    const size_t count = sampling_.size();
    status =
        parts_.sampler->sample(std::span(rows_).first(count), std::span(results_).first(count));
  }
  if (!status.ok()) {
    fail_sequences(sampling_, "sampler '" + parts_.sampler_name +
                                  "' failed: " + std::string(status.message()));
    return;
  }
  for (Sequence* sequence : sampling_) {
    if (sequence->state != SequenceState::ended) take_results(*sequence, 1);
  }
}

void Engine::run_verify() {
  verify_rows_.clear();
  verify_results_.clear();
  for (Sequence* sequence : verifying_) {
    const StepShare& share = sequence->share;
    const std::span rows = std::span(rows_).subspan(share.first_result, share.logits_rows);
    const std::span drafts = std::span(sequence->tokens).subspan(sequence->known, share.drafts);
    verify_rows_.push_back({rows, drafts, share.draft_probs});
    verify_results_.push_back(
        {std::span(results_).subspan(share.first_result, share.logits_rows), 0});
  }
  Status status;
  {
    Stopwatch watch(*parts_.clock, record_.times.sampler_ns);
    status = parts_.sampler->verify(verify_rows_, verify_results_);
  }
  if (!status.ok()) {
    fail_sequences(verifying_, "sampler '" + parts_.sampler_name +
                                   "' failed: " + std::string(status.message()));
    return;
  }
  for (size_t i = 0; i < verifying_.size(); ++i) {
    if (verifying_[i]->state == SequenceState::ended) continue;
    take_results(*verifying_[i], verify_results_[i].count);
  }
}

// Appends what was drawn to what is known. `count` tokens, of which all but the last are drafts.
void Engine::take_results(Sequence& sequence, uint32_t count) {
  StepShare& share = sequence.share;
  bool sound = count > 0 && count <= share.logits_rows;
  for (uint32_t i = 0; sound && i < count; ++i) {
    const TokenId token = results_[share.first_result + i].token;
    sound = token >= 0 && static_cast<uint32_t>(token) < output_.vocabulary &&
            (i + 1 == count || token == sequence.tokens[sequence.known + i]);
  }
  if (!sound) {
    fail_request(*sequence.request,
                 "sampler '" + parts_.sampler_name + "' found no token at position " +
                     std::to_string(sequence.known) +
                     " – a row needs at least one finite logit that is allowed – the model's "
                     "weights or the executor are at fault");
    return;
  }
  share.result_count = count;
  share.accepted = count - 1;
  sequence.tokens.resize(sequence.known);
  for (uint32_t i = 0; i < count; ++i) {
    sequence.tokens.push_back(results_[share.first_result + i].token);
  }
  sequence.known += count;
  sequence.record.accepted_tokens += share.accepted;
  record_.accepted_drafts += share.accepted;
  totals_.drafts.add(share.drafts, share.accepted);
}

}  // namespace tenon
