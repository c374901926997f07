#include "core/engine/answers/beams/beam_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/engine/answers/beams/beam_memory.h"
#include "core/engine/answers/no_token.h"
#include "core/engine/records/digest.h"
#include "core/engine/step/joining.h"

namespace tenon {
namespace {

BeamPath::Token token_of(const Sequence& sequence, const BeamCandidate& candidate,
                         uint32_t alternatives) {
  const std::vector<TokenLogprob>& top = path_of(sequence).top;
  BeamPath::Token token;
  token.token = candidate.token;
  token.logprob = top[candidate.entry].logprob;
  token.rank = candidate.entry + 1;
  token.top.assign(top.begin(), top.begin() + std::min<size_t>(alternatives, top.size()));
  return token;
}

// Answers that better ones displaced.
void drop_answers(BeamGroup& group) {
  std::erase_if(group.answers, [&](const KeptAnswer& answer) {
    return std::none_of(group.search.kept().begin(), group.search.kept().end(),
                        [&](const auto& kept) { return kept.answer == answer.number; });
  });
}

}  // namespace

void begin_beam_group(RequestState& state, Sequence& first) {
  const Request& request = state.request;
  const BeamSearch::Rules rules{
      .beams = request.beams,
      .length_penalty = static_cast<double>(request.length_penalty),
      .stop = request.beam_stop,
      .limit_tokens = state.limit_tokens - static_cast<uint32_t>(request.prompt.size())};
  state.beam_group = std::make_unique<BeamGroup>(BeamGroup{BeamSearch(rules), {&first}, {}});
  // Beams fork when the search says so, not when the prompt is computed.
  state.forked_samples = request.samples;
}

uint32_t candidates_per_beam(const RequestState& state, const ModelShape& shape) {
  const auto ending = static_cast<uint32_t>(state.ending_tokens.size());
  const uint32_t needed = std::max(state.beam_group->search.candidates_per_beam(ending),
                                   state.request.sampling.logprobs);
  return std::min(needed, shape.vocabulary);
}

// Keeps what one beam's row says.
void BeamGroups::take_result(const Step& step, const Share& share) {
  Sequence& sequence = *share.sequence;
  const SampleResult& result = step.results[share.first_result];
  const std::span<const TokenLogprob> top =
      result.top.first(std::min<size_t>(result.top_count, result.top.size()));
  if (sequence.grammar.binds()) return take_allowed(step, share);
  if (result.token == kNoToken && result.top_count == 0) {
    const std::string why = no_finite_logit(context_, step.rows[share.first_result]);
    if (!why.empty()) return context_.fail_request(*sequence.request, why);
  }
  const bool sound = !top.empty() && std::all_of(top.begin(), top.end(), [&](const auto& entry) {
    return entry.token >= 0 && static_cast<uint32_t>(entry.token) < step.output.vocabulary;
  });
  if (!sound) {
    context_.fail_request(
        *sequence.request,
        "sampler " + in_quotes(context_.parts.sampler_name) + " ranked no tokens at position " +
            std::to_string(sequence.known) +
            " – a beam search needs the most likely ones – use a sampler that reports "
            "log probabilities");
    return;
  }
  keep_result(step, share, top);
}

void BeamGroups::keep_result(const Step& step, const Share& share,
                             std::span<const TokenLogprob> top) {
  Sequence& sequence = *share.sequence;
  path_of(sequence).top.assign(top.begin(), top.end());
  path_of(sequence).sampled = true;
  path_of(sequence).digest =
      context_.options.logits_digest
          ? extend_digest(sequence.digest, step.rows[share.first_result].logits,
                          step.output.vocabulary)
          : 0;
  BeamGroup& group = *sequence.request->beam_group;
  group.ready = std::all_of(group.running.begin(), group.running.end(),
                            [](const Sequence* beam) { return path_of(*beam).sampled; });
}

// Of the tokens that the beam's grammar allows, the most likely ones, by the model's own log
// probabilities.
void BeamGroups::take_allowed(const Step& step, const Share& share) {
  Sequence& sequence = *share.sequence;
  const SampleRow& row = step.rows[share.first_result];
  // What is no finite number counts as -inf.
  float highest = -std::numeric_limits<float>::infinity();
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    if (std::isfinite(row.logits[token])) highest = std::max(highest, row.logits[token]);
  }
  double sum = 0.0;
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    if (!std::isfinite(row.logits[token])) continue;
    sum += std::exp(static_cast<double>(row.logits[token] - highest));
  }
  const double log_sum = static_cast<double>(highest) + std::log(sum);
  std::vector<TokenLogprob> all;
  for (uint32_t token = 0; token < row.vocabulary; ++token) {
    const bool allowed = ((row.allowed[token / 64] >> (token % 64)) & 1) != 0;
    if (!allowed || !std::isfinite(row.logits[token])) continue;
    all.push_back({static_cast<TokenId>(token),
                   static_cast<float>(static_cast<double>(row.logits[token]) - log_sum)});
  }
  const size_t wanted =
      std::min<size_t>(candidates_per_beam(*sequence.request, *context_.parts.shape), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted), all.end(),
                    [](const TokenLogprob& a, const TokenLogprob& b) {
                      return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
                    });
  all.resize(wanted);
  if (all.empty()) {
    return context_.fail_request(*sequence.request,
                                 "the model gives none of the tokens that the grammar allows at "
                                 "position " +
                                     std::to_string(sequence.known) + " a finite logit");
  }
  keep_result(step, share, all);
}

void BeamGroups::advance(Step& step, RequestState& state) {
  BeamGroup& group = *state.beam_group;
  const Sequence& any = *group.running.front();
  const uint32_t length = any.generated() + 1;
  const bool last = any.known + 1 >= state.limit_tokens;
  gather_candidates(state, last);
  if (candidates_.empty()) {
    context_.refuse_request(
        state,
        "a beam search has no token that may come next – min_tokens forbids every "
        "ending, and the sampler ranked nothing else");
    return;
  }
  group.search.advance(candidates_, length);
  for (const BeamSearch::Ended& ended : group.search.ended()) keep_answer(state, ended);
  drop_answers(group);
  if (group.search.done()) {
    finish(step, state);
  } else {
    go_on(step, state);
  }
}

void BeamGroups::gather_candidates(const RequestState& state, bool last) {
  candidates_.clear();
  const auto& ending = state.ending_tokens;
  const std::vector<Sequence*>& running = state.beam_group->running;
  for (uint32_t b = 0; b < running.size(); ++b) {
    const bool may_end = running[b]->generated() >= state.request.min_tokens;
    const BeamPath& path = path_of(*running[b]);
    for (uint32_t entry = 0; entry < path.top.size(); ++entry) {
      const TokenId token = path.top[entry].token;
      const bool ends = std::binary_search(ending.begin(), ending.end(), token);
      // A grammar's mask has held back what may not come yet.
      if (ends && !may_end && !running[b]->grammar.binds()) continue;
      candidates_.push_back(
          {b, entry, token, path.sum + static_cast<double>(path.top[entry].logprob), ends || last});
    }
  }
}

void BeamGroups::keep_answer(RequestState& state, const BeamSearch::Ended& ended) {
  const Sequence& sequence = *state.beam_group->running[ended.candidate.beam];
  KeptAnswer answer;
  answer.number = ended.answer;
  answer.tokens = path_of(sequence).tokens;
  answer.tokens.push_back(token_of(sequence, ended.candidate, state.request.sampling.logprobs));
  answer.record = sequence.record;
  answer.record.token_ns.push_back(context_.parts.clock->now_ns());
  answer.record.generated_tokens = static_cast<uint32_t>(answer.tokens.size());
  answer.record.logits_digest = path_of(sequence).digest;
  const auto& ending = state.ending_tokens;
  const auto& stops = state.request.stop_tokens;
  const TokenId token = ended.candidate.token;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    answer.reason = FinishReason::stop;
  } else if (std::binary_search(ending.begin(), ending.end(), token)) {
    answer.reason = FinishReason::eos;
  }
  state.beam_group->answers.push_back(std::move(answer));
}

// The beams that go on: the first continuation of each stays where it is, further ones are forks,
// beams without any end.
void BeamGroups::go_on(const Step& step, RequestState& state) {
  BeamGroup& group = *state.beam_group;
  const std::vector<Sequence*> before = group.running;
  const std::vector<BeamCandidate> next(group.search.next().begin(), group.search.next().end());
  std::vector<bool> stays(before.size(), false);
  for (const BeamCandidate& candidate : next) stays[candidate.beam] = true;
  for (size_t b = 0; b < before.size(); ++b) {
    if (!stays[b]) context_.retire(*before[b], EventKind::finished);
  }
  group.running.clear();
  std::fill(stays.begin(), stays.end(), false);
  std::vector<std::pair<Sequence*, const BeamCandidate*>> moves;
  for (const BeamCandidate& candidate : next) {
    Sequence* parent = before[candidate.beam];
    const bool first = !stays[candidate.beam];
    stays[candidate.beam] = true;
    Sequence* beam = first ? parent : fork(*parent);
    if (beam == nullptr) return;  // the request has failed
    group.running.push_back(beam);
    moves.emplace_back(beam, &candidate);
  }
  // Only now: forks copy what their parent was.
  for (const auto& [beam, candidate] : moves) {
    extend(step, *beam, *candidate);
    if (state.live_samples == 0) return;  // likewise
  }
  release_unless_whole(state);
}

// A beam that goes on from where `parent` is.
Sequence* BeamGroups::fork(const Sequence& parent) {
  RequestState& state = *parent.request;
  Sequence& child = context_.table.add(state, 0, parent.record.arrival_ns);
  child.tokens = parent.tokens;
  child.known = parent.known;
  child.furthest = parent.furthest;
  child.digest = parent.digest;
  child.record = parent.record;
  child.answer = std::make_unique<BeamAnswer>(context_, child, path_of(parent));
  if (Status status = introduce_fork(context_, child, parent); !status.ok()) {
    context_.fail_request(state, message_of(status));
    return nullptr;
  }
  place_fork(context_, child, parent, parent.computed);
  return child.state == SequenceState::ended ? nullptr : &child;
}

void BeamGroups::rejoin(RequestState& state) {
  BeamGroup& group = *state.beam_group;
  Sequence& trunk = *std::exchange(group.trunk, nullptr);
  const uint32_t tokens = std::exchange(trunk.stop_at, 0);
  for (Sequence* beam : group.running) {
    if (beam == &trunk) continue;
    fork_anew(context_, *beam, trunk, tokens);
    if (state.live_samples == 0) return;  // the request has failed
  }
  release_unless_whole(state);
}

// Where a fork found no row or no memory.
void BeamGroups::release_unless_whole(RequestState& state) {
  BeamGroup& group = *state.beam_group;
  const bool whole = std::all_of(group.running.begin(), group.running.end(),
                                 [](auto* beam) { return beam->state == SequenceState::running; });
  if (whole) return;
  const Status status = [&] {
    PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
    return release_group(group, *context_.parts.kv_cache, context_.table);
  }();
  if (status.ok()) return;
  context_.fail_request(state, plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                            "could not release a sequence", status));
}

void BeamGroups::extend(const Step& step, Sequence& beam, const BeamCandidate& candidate) {
  BeamPath& path = path_of(beam);
  path.tokens.push_back(token_of(beam, candidate, beam.request->request.sampling.logprobs));
  path.sum = candidate.sum;
  path.sampled = false;
  beam.digest = path.digest;
  beam.tokens.resize(beam.known);
  beam.tokens.push_back(candidate.token);
  ++beam.known;
  if (Status followed = beam.grammar.follow(candidate.token); !followed.ok()) {
    return context_.fail_request(*beam.request, message_of(followed));
  }
  beam.record.token_ns.push_back(context_.parts.clock->now_ns());
  // Those of this step hear of it with their step's results.
  const bool in_step = std::any_of(step.shares.begin(), step.shares.end(),
                                   [&](const Share& share) { return share.sequence == &beam; });
  if (!in_step) context_.tell_progress(beam, 0);
}

void BeamGroups::finish(Step& step, RequestState& state) {
  BeamGroup& group = *state.beam_group;
  uint32_t sample = 0;
  for (const BeamSearch::Kept& kept : group.search.kept()) {
    if (sample == state.request.samples) break;
    const auto answer = std::find_if(group.answers.begin(), group.answers.end(),
                                     [&](const auto& a) { return a.number == kept.answer; });
    deliver(step, state, sample++, *answer);
  }
  context_.end_beam_group(state, sample, FinishReason::error,
                          "the beam search found fewer answers than were asked for – ask for fewer",
                          Blame::request);
}

void BeamGroups::deliver(Step& step, RequestState& state, uint32_t sample, KeptAnswer& answer) {
  const Request& request = state.request;
  TextStream text(context_.parts.text ? context_.parts.text(request) : nullptr, {});
  tokens_.clear();
  for (const BeamPath::Token& token : answer.tokens) {
    tokens_.push_back({token.token, token.logprob, token.rank, token.top});
  }
  const bool silent = answer.reason == FinishReason::eos ||
                      (answer.reason == FinishReason::stop && !request.include_stop);
  for (size_t i = 0; i + silent < answer.tokens.size(); ++i) {
    (void)text.push(answer.tokens[i].token, false);
  }
  (void)text.finish();
  step.record.tokens += static_cast<uint32_t>(answer.tokens.size());
  answer.record.sample = sample;
  answer.record.end_ns = context_.parts.clock->now_ns();
  if (request.sink != nullptr) {
    request.sink->on_delta({state.id, sample, text.ready(), tokens_, &answer.record});
    request.sink->on_end({state.id, sample, answer.reason, {}, {}, &answer.record});
  }
}

}  // namespace tenon
