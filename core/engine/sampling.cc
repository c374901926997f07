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
  score_prompts();
  fork_samples();
  build_sample_rows();
  if (!sampling_.empty()) run_sample();
  if (!verifying_.empty()) run_verify();
}

// Rows of prompts whose log probabilities were asked for: the token that follows each is scored.
void Engine::score_prompts() {
  score_rows_.clear();
  scored_.clear();
  size_t top_count = 0;
  for (Sequence* sequence : in_step_) {
    const StepShare& share = sequence->share;
    for (uint32_t i = 0; i < share.score_rows; ++i) {
      SampleRow row;
      row.seq = sequence->id;
      row.logits = output_.logits + (share.first_score + i) * output_.vocabulary;
      row.vocabulary = static_cast<uint32_t>(output_.vocabulary);
      const uint32_t position = sequence->scored + i;
      row.history = {sequence->tokens.data(), position};
      row.prompt_tokens = position;
      row.score = sequence->tokens[position];
      score_rows_.push_back(row);
      scored_.push_back(sequence);
      top_count += sequence->request->request.sampling.logprobs;
    }
  }
  if (scored_.empty()) return;
  top_.resize(top_count);
  score_results_.assign(score_rows_.size(), {});
  TokenLogprob* top = top_.data();
  for (size_t i = 0; i < scored_.size(); ++i) {
    const uint32_t wanted = scored_[i]->request->request.sampling.logprobs;
    score_results_[i].top = {top, wanted};
    top += wanted;
  }
  const Status status = sample_rows(score_rows_, score_results_);
  if (!status.ok()) {
    fail_sequences(
        scored_, "sampler '" + parts_.sampler_name + "' failed: " + std::string(status.message()));
    std::erase_if(sampling_, [](Sequence* s) { return s->state == SequenceState::ended; });
    std::erase_if(verifying_, [](Sequence* s) { return s->state == SequenceState::ended; });
    return;
  }
  deliver_scores();
}

void Engine::deliver_scores() {
  for (size_t first = 0; first < scored_.size();) {
    Sequence& sequence = *scored_[first];
    const uint32_t count = sequence.share.score_rows;
    generated_.clear();
    for (const SampleResult& result : std::span(score_results_).subspan(first, count)) {
      generated_.push_back(
          {result.token, result.logprob, result.rank,
           result.top.first(std::min<size_t>(result.top_count, result.top.size()))});
    }
    if (RequestSink* sink = sequence.request->request.sink.get()) {
      sink->on_prompt({sequence.request->id, sequence.scored, generated_});
    }
    sequence.scored += count;
    first += count;
  }
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
      top_count += size_t{sequence->share.logits_rows} * tops_of(*sequence);
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
  const uint32_t tops = tops_of(sequence);
  StepShare& share = sequence.share;
  share.first_result = static_cast<uint32_t>(rows_.size());
  share.result_count = 0;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    SampleRow row = sample_row_of(sequence, {sequence.tokens.data(), sequence.known + i});
    row.logits = output_.logits + (share.first_logits + i) * output_.vocabulary;
    row.vocabulary = static_cast<uint32_t>(output_.vocabulary);
    results_[rows_.size()].top = {top, tops};
    top += tops;
    rows_.push_back(row);
  }
}

// Rows are cut into as many parts as there are workers to share them out to. `body` takes the first
// row and the one behind the last; the first failure counts.
Status Engine::share_rows(size_t rows, const std::function<Status(size_t, size_t)>& body) {
  Stopwatch watch(*parts_.clock, record_.times.sampler_ns);
  const auto parts = static_cast<uint32_t>(std::min<size_t>(parts_.executor->workers(), rows));
  part_status_.clear();
  part_status_.resize(parts);
  const auto run = [&](uint32_t part) {
    part_status_[part] = body(rows * part / parts, rows * (part + 1) / parts);
  };
  parts_.executor->share_out(parts, [&run](uint32_t part) { run(part); });
  for (Status& status : part_status_) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

Status Engine::sample_rows(std::span<const SampleRow> rows, std::span<SampleResult> results) {
  struct Job {
    Sampler* sampler;
    std::span<const SampleRow> rows;
    std::span<SampleResult> results;
  } job{parts_.sampler, rows, results};
  return share_rows(rows.size(), [&job](size_t first, size_t end) {
    return job.sampler->sample(job.rows.subspan(first, end - first),
                               job.results.subspan(first, end - first));
  });
}

void Engine::run_sample() {
  const size_t count = sampling_.size();
  const Status status =
      sample_rows(std::span(rows_).first(count), std::span(results_).first(count));
  if (!status.ok()) {
    fail_sequences(sampling_, "sampler '" + parts_.sampler_name +
                                  "' failed: " + std::string(status.message()));
    return;
  }
  for (Sequence* sequence : sampling_) {
    if (sequence->state == SequenceState::ended) continue;
    if (sequence->beam != nullptr) {
      take_beam_result(*sequence);
    } else {
      take_results(*sequence, 1);
    }
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
  const Status status = share_rows(verify_rows_.size(), [this](size_t first, size_t end) {
    return parts_.sampler->verify(std::span(verify_rows_).subspan(first, end - first),
                                  std::span(verify_results_).subspan(first, end - first));
  });
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
