// Beam search in the step loop: beams are sequences that fork and end as the search decides.
//
// A group goes on only when every beam has been sampled. One that was sampled before the others
// keeps what came out and takes its last token back, so that to a scheduler it looks like any
// sequence with a token to compute; its K/V is there when the others are ready.
#include <algorithm>
#include <string>

#include "core/engine/digest.h"
#include "core/engine/engine.h"

namespace tenon {
namespace {

BeamPath::Token token_of(const Sequence& sequence, const BeamCandidate& candidate,
                         uint32_t alternatives) {
  const std::vector<TokenLogprob>& top = sequence.beam->top;
  BeamPath::Token token;
  token.token = candidate.token;
  token.logprob = top[candidate.entry].logprob;
  token.rank = candidate.entry + 1;
  token.top.assign(top.begin(), top.begin() + std::min<size_t>(alternatives, top.size()));
  return token;
}

}  // namespace

// How many of the most likely tokens are asked for at each row.
uint32_t Engine::tops_of(const Sequence& sequence) const {
  const RequestState& state = *sequence.request;
  if (state.beams == nullptr) return state.request.sampling.logprobs;
  const auto ending = static_cast<uint32_t>(state.ending_tokens.size());
  const uint32_t needed =
      std::max(state.beams->search.candidates_per_beam(ending), state.request.sampling.logprobs);
  return std::min(needed, parts_.shape->vocabulary);
}

void Engine::begin_beams(RequestState& state) {
  const Request& request = state.request;
  if (request.beams == 0) return;
  state.beams = std::make_unique<BeamGroup>(BeamGroup{
      BeamSearch(
          {.beams = request.beams,
           .length_penalty = static_cast<double>(request.length_penalty),
           .stop = request.beam_stop,
           .limit_tokens = state.limit_tokens - static_cast<uint32_t>(request.prompt.size())}),
      {},
      {},
      false});
  // Beams fork when the search says so, not when the prompt is computed.
  state.forked_samples = request.samples;
}

// Keeps what one beam's row says.
void Engine::take_beam_result(Sequence& sequence) {
  const SampleResult& result = results_[sequence.share.first_result];
  const std::span<const TokenLogprob> top =
      result.top.first(std::min<size_t>(result.top_count, result.top.size()));
  const bool sound = !top.empty() && std::all_of(top.begin(), top.end(), [this](const auto& entry) {
    return entry.token >= 0 && static_cast<uint32_t>(entry.token) < output_.vocabulary;
  });
  if (!sound) {
    fail_request(*sequence.request,
                 "sampler '" + parts_.sampler_name + "' ranked no tokens at position " +
                     std::to_string(sequence.known) +
                     " – a beam search needs the most likely ones – use a sampler that reports "
                     "log probabilities");
    return;
  }
  sequence.beam->top.assign(top.begin(), top.end());
  sequence.beam->sampled = true;
  sequence.beam->digest =
      options_.logits_digest
          ? extend_digest(sequence.digest, rows_[sequence.share.first_result].logits,
                          output_.vocabulary)
          : 0;
  BeamGroup& group = *sequence.request->beams;
  group.ready = std::all_of(group.running.begin(), group.running.end(),
                            [](const Sequence* beam) { return beam->beam->sampled; });
}

// Every group that is ready takes its step.
void Engine::advance_beams() {
  advancing_.clear();
  for (Sequence* sequence : in_step_) {
    RequestState& state = *sequence->request;
    if (state.beams == nullptr || !state.beams->ready || state.live_samples == 0) continue;
    state.beams->ready = false;
    advancing_.push_back(&state);
  }
  for (RequestState* state : advancing_) advance_group(*state);
}

void Engine::advance_group(RequestState& state) {
  BeamGroup& group = *state.beams;
  const Sequence& any = *group.running.front();
  const uint32_t length = any.generated() + 1;
  const bool last = any.known + 1 >= state.limit_tokens;
  gather_candidates(state, last);
  if (beam_candidates_.empty()) {
    fail_request(state,
                 "a beam search has no token that may come next – min_tokens forbids every "
                 "ending, and the sampler ranked nothing else");
    return;
  }
  group.search.advance(beam_candidates_, length);
  for (const BeamSearch::Ended& ended : group.search.ended()) keep_answer(state, ended);
  drop_answers(group);
  if (group.search.done()) {
    finish_beams(state);
  } else {
    continue_beams(state);
  }
}

void Engine::gather_candidates(const RequestState& state, bool last) {
  beam_candidates_.clear();
  const auto& ending = state.ending_tokens;
  const std::vector<Sequence*>& running = state.beams->running;
  for (uint32_t b = 0; b < running.size(); ++b) {
    const bool may_end = running[b]->generated() >= state.request.min_tokens;
    const BeamPath& path = *running[b]->beam;
    for (uint32_t entry = 0; entry < path.top.size(); ++entry) {
      const TokenId token = path.top[entry].token;
      const bool ends = std::binary_search(ending.begin(), ending.end(), token);
      if (ends && !may_end) continue;
      beam_candidates_.push_back(
          {b, entry, token, path.sum + static_cast<double>(path.top[entry].logprob), ends || last});
    }
  }
}

void Engine::keep_answer(RequestState& state, const BeamSearch::Ended& ended) {
  const Sequence& sequence = *state.beams->running[ended.candidate.beam];
  BeamAnswer answer;
  answer.number = ended.answer;
  answer.tokens = sequence.beam->tokens;
  answer.tokens.push_back(token_of(sequence, ended.candidate, state.request.sampling.logprobs));
  answer.record = sequence.record;
  answer.record.token_ns.push_back(parts_.clock->now_ns());
  answer.record.generated_tokens = static_cast<uint32_t>(answer.tokens.size());
  answer.record.logits_digest = sequence.beam->digest;
  const auto& ending = state.ending_tokens;
  const auto& stops = state.request.stop_tokens;
  const TokenId token = ended.candidate.token;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    answer.reason = FinishReason::stop;
  } else if (std::binary_search(ending.begin(), ending.end(), token)) {
    answer.reason = FinishReason::eos;
  }
  state.beams->answers.push_back(std::move(answer));
}

// Answers that better ones displaced.
void Engine::drop_answers(BeamGroup& group) {
  std::erase_if(group.answers, [&](const BeamAnswer& answer) {
    return std::none_of(group.search.kept().begin(), group.search.kept().end(),
                        [&](const auto& kept) { return kept.answer == answer.number; });
  });
}

// The beams that go on: the first continuation of each stays where it is, further ones are forks,
// beams without any end.
void Engine::continue_beams(RequestState& state) {
  BeamGroup& group = *state.beams;
  const std::vector<Sequence*> before = group.running;
  const std::vector<BeamCandidate> next(group.search.next().begin(), group.search.next().end());
  std::vector<bool> stays(before.size(), false);
  for (const BeamCandidate& candidate : next) stays[candidate.beam] = true;
  for (size_t b = 0; b < before.size(); ++b) {
    if (!stays[b]) retire(*before[b], EventKind::finished);
  }
  group.running.clear();
  std::fill(stays.begin(), stays.end(), false);
  std::vector<std::pair<Sequence*, const BeamCandidate*>> moves;
  for (const BeamCandidate& candidate : next) {
    Sequence* parent = before[candidate.beam];
    const bool first = !stays[candidate.beam];
    stays[candidate.beam] = true;
    Sequence* beam = first ? parent : fork_beam(*parent, *parent, parent->computed);
    if (beam == nullptr) return;  // the request has failed
    group.running.push_back(beam);
    moves.emplace_back(beam, &candidate);
  }
  // Only now: forks copy what their parent was.
  for (const auto& [beam, candidate] : moves) extend_beam(*beam, *candidate);
}

// A sequence that goes on from where `origin` is, sharing the first `tokens` of the K/V of
// `parent`, where that has any.
Sequence* Engine::fork_beam(const Sequence& origin, const Sequence& parent, uint32_t tokens) {
  RequestState& state = *origin.request;
  Sequence& child = table_.add(state, 0, origin.record.arrival_ns);
  child.tokens = origin.tokens;
  child.known = origin.known;
  child.scored = origin.scored;
  child.digest = origin.digest;
  child.record = origin.record;
  child.beam = std::make_unique<BeamPath>(*origin.beam);
  if (Status status = introduce(child, &parent); !status.ok()) {
    fail_request(state, std::string(status.message()));
    return nullptr;
  }
  begin_child_kv(child, parent, tokens);
  return child.state == SequenceState::ended ? nullptr : &child;
}

// A beam whose memory was taken would compute everything again, and share nothing any more. Where
// one beam of its group is up to date, all others fork from that anew.
void Engine::rejoin_beams() {
  advancing_.clear();
  for (const Sequence* sequence : table_.waiting()) {
    RequestState* state = sequence->request;
    const bool known = std::find(advancing_.begin(), advancing_.end(), state) != advancing_.end();
    if (sequence->beam != nullptr && state->beams->running.size() > 1 && !known) {
      advancing_.push_back(state);
    }
  }
  for (RequestState* state : advancing_) rejoin_group(*state);
}

void Engine::rejoin_group(RequestState& state) {
  std::vector<Sequence*>& beams = state.beams->running;
  const auto is_anchor = [](const Sequence* beam) {
    return beam->state == SequenceState::running && beam->computed + 1 >= beam->known;
  };
  const auto found = std::find_if(beams.begin(), beams.end(), is_anchor);
  const auto held = static_cast<size_t>(std::count_if(beams.begin(), beams.end(), [](auto* beam) {
    return beam->state == SequenceState::running;
  }));
  const size_t rows = table_.running().size() - held + beams.size();
  if (found == beams.end() || rows > parts_.limits.max_sequences) return;
  Sequence& anchor = **found;
  for (Sequence*& beam : beams) {
    if (beam == &anchor) continue;
    const uint32_t most = std::min(anchor.computed, beam->known - 1);
    const auto end = beam->tokens.begin() + most;
    const auto common = static_cast<uint32_t>(
        std::mismatch(beam->tokens.begin(), end, anchor.tokens.begin()).first -
        beam->tokens.begin());
    Sequence* old = beam;
    retire(*old, EventKind::finished);
    beam = fork_beam(*old, anchor, common);
    if (beam == nullptr) return;  // the request has failed
  }
}

void Engine::extend_beam(Sequence& beam, const BeamCandidate& candidate) {
  beam.beam->tokens.push_back(token_of(beam, candidate, beam.request->request.sampling.logprobs));
  beam.beam->sum = candidate.sum;
  beam.beam->sampled = false;
  beam.digest = beam.beam->digest;
  beam.tokens.resize(beam.known);
  beam.tokens.push_back(candidate.token);
  ++beam.known;
  beam.record.token_ns.push_back(parts_.clock->now_ns());
  // Those of this step hear of it with their step's results.
  if (std::find(in_step_.begin(), in_step_.end(), &beam) == in_step_.end()) progressed(beam);
}

void Engine::finish_beams(RequestState& state) {
  BeamGroup& group = *state.beams;
  uint32_t sample = 0;
  for (const BeamSearch::Kept& kept : group.search.kept()) {
    if (sample == state.request.samples) break;
    const auto answer = std::find_if(group.answers.begin(), group.answers.end(),
                                     [&](const auto& a) { return a.number == kept.answer; });
    deliver_answer(state, sample++, *answer);
  }
  end_beams(state, sample, FinishReason::error,
            "the beam search found fewer answers than were asked for – ask for fewer");
}

void Engine::deliver_answer(RequestState& state, uint32_t sample, BeamAnswer& answer) {
  const Request& request = state.request;
  Delivery delivery(parts_.text ? parts_.text(request) : nullptr, {});
  generated_.clear();
  for (const BeamPath::Token& token : answer.tokens) {
    generated_.push_back({token.token, token.logprob, token.rank, token.top});
  }
  const bool silent = answer.reason == FinishReason::eos ||
                      (answer.reason == FinishReason::stop && !request.include_stop);
  for (size_t i = 0; i + silent < answer.tokens.size(); ++i) {
    (void)delivery.push(answer.tokens[i].token, false);
  }
  (void)delivery.finish();
  record_.tokens += static_cast<uint32_t>(answer.tokens.size());
  answer.record.sample = sample;
  answer.record.end_ns = parts_.clock->now_ns();
  if (request.sink != nullptr) {
    request.sink->on_delta({state.id, sample, delivery.ready(), generated_});
    request.sink->on_end({state.id, sample, answer.reason, {}, {}, &answer.record});
  }
}

// All beams of a request end; samples from `first` on have no answer.
void Engine::end_beams(RequestState& state, uint32_t first, FinishReason reason,
                       std::string_view message) {
  RequestRecord record;
  const bool aborted = first == 0;
  for (Sequence* beam : table_.all()) {
    if (beam->request != &state) continue;
    record = beam->record;
    retire(*beam, aborted ? EventKind::aborted : EventKind::finished);
  }
  state.beams->running.clear();
  record.end_ns = parts_.clock->now_ns();
  for (uint32_t sample = first; sample < state.request.samples; ++sample) {
    record.sample = sample;
    if (state.request.sink != nullptr) {
      state.request.sink->on_end({state.id, sample, reason, message, {}, &record});
    }
  }
  totals_.samples_ended += state.request.samples;
  totals_.prompt_tokens += uint64_t{state.request.prompt.size()} * state.request.samples;
  state.live_samples = 0;
  ended_requests_.push_back(state.id);
}

}  // namespace tenon
