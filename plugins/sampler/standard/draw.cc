#include "plugins/sampler/standard/draw.h"

#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plugins/sampler/standard/stages.h"

namespace tenon::standard {
namespace {

// Of the raw logits, before anything is changed.
class Logprobs {
 public:
  Logprobs(Scratch& scratch, SampleResult& result) : row_(scratch.row) {
    const Choice all;
    offset_ = -static_cast<double>(row_.peak(all.range)) - std::log(row_.weigh(all));
    const auto count =
        static_cast<uint32_t>(std::min<size_t>(result.top.size(), row_.vocabulary()));
    row_.select(all.range, count, scratch.candidates);
    std::sort(scratch.candidates.begin(), scratch.candidates.end(), before);
    result.top_count = static_cast<uint32_t>(scratch.candidates.size());
    for (uint32_t i = 0; i < result.top_count; ++i) {
      const Candidate& candidate = scratch.candidates[i];
      result.top[i] = {static_cast<TokenId>(candidate.id), of(candidate.logit)};
    }
  }
  // With the raw row in its place.
  void of(TokenId token, SampleResult& result) const {
    const float logit = row_.at(static_cast<uint32_t>(token));
    result.logprob = of(logit);
    result.rank = row_.rank(logit);
  }

 private:
  float of(float logit) const { return static_cast<float>(logit + offset_); }
  Row& row_;
  double offset_;
};

bool wants_logprobs(const Settings& settings, const SampleResult& result) {
  return settings.params().logprobs > 0 || !result.top.empty();
}

// How many tokens the sequence has generated before this row.
size_t generated(const SampleRow& row) {
  return row.history.size() - std::min<size_t>(row.prompt_tokens, row.history.size());
}

bool xtc_happens(const SampleRow& row, const SamplingParams& params) {
  return sdk::uniform(row.key, RandomPurpose::exclude) <
         static_cast<double>(params.xtc_probability);
}

void run_stage(SamplingStage stage, Funnel& funnel, Scratch& scratch, const SampleRow& row,
               const SamplingParams& p) {
  switch (stage) {
    case SamplingStage::penalties:
      funnel.cut_row();
      return apply_penalties(scratch.row, row, p, funnel.choice().scale, scratch.penalties);
    case SamplingStage::dry:
      funnel.cut_row();
      return apply_dry(scratch.row, row, p, funnel.choice().scale, scratch.penalties);
    case SamplingStage::temperature:
      if (p.dynamic_temperature_range == 0.0f) return funnel.temperature(p.temperature);
      return funnel.dynamic_temperature(p.temperature, p.dynamic_temperature_range,
                                        p.dynamic_temperature_exponent);
    case SamplingStage::top_n_sigma:
      return funnel.top_n_sigma(p.top_n_sigma);
    case SamplingStage::top_k:
      return funnel.top_k(p.top_k);
    case SamplingStage::typical_p:
      return funnel.typical_p(p.typical_p);
    case SamplingStage::top_p:
      return funnel.top_p(p.top_p);
    case SamplingStage::min_p:
      return funnel.min_p(p.min_p);
    case SamplingStage::xtc:
      if (xtc_happens(row, p)) funnel.xtc(p.xtc_threshold);
      return;
  }
}

// Whether a token is left that has a finite logit. +inf, which comes of a fault upstream, counts as
// the largest finite number next to one, and is nothing alone.
bool can_be_drawn(const Row& row, const float* logits) {
  if (row.peak({}) < std::numeric_limits<float>::max()) return !row.empty();
  for (uint32_t id = 0; id < row.vocabulary(); ++id) {
    if (row.at(id) > Row::kNothing && std::isfinite(logits[id])) return true;
  }
  return false;
}

bool edited(const SampleRow& row, const Settings& settings) {
  return row.allowed != nullptr || settings.edits();
}

// The distribution to draw from, after all stages; the row is loaded. False: nothing is
// left.
bool choose(Scratch& scratch, const SampleRow& row, const Settings& settings, Choice& choice) {
  const SamplingParams& params = settings.params();
  if (edited(row, settings)) {
    apply_edits(scratch.row, row, params);
  }
  if (!can_be_drawn(scratch.row, row.logits)) return false;
  Funnel funnel(scratch.row, scratch.candidates);
  for (SamplingStage stage : settings.stages()) {
    const bool penalty = stage == SamplingStage::penalties || stage == SamplingStage::dry;
    if (penalty || !settings.greedy()) run_stage(stage, funnel, scratch, row, params);
  }
  if (params.mirostat == 1) funnel.mirostat_1(settings.mu(generated(row)));
  if (params.mirostat == 2) funnel.mirostat_2(settings.mu(generated(row)));
  choice = funnel.choice();
  return true;
}

void observe(Scratch& scratch, const SampleRow& row, Settings& settings, const Choice& choice,
             double total, uint32_t token) {
  if (!settings.mirostat()) return;
  const double p = scratch.row.weight(choice, token) / total;
  settings.observe(generated(row), -std::log2(p));
}

// Of an edited row; kNoToken where nothing is left.
TokenId draw(Scratch& scratch, const SampleRow& row, Settings& settings) {
  Choice choice;
  if (!choose(scratch, row, settings, choice)) return kNoToken;
  if (settings.greedy()) return static_cast<TokenId>(scratch.row.best().id);
  const double total = scratch.row.weigh(choice);
  const double target = sdk::uniform(row.key, RandomPurpose::sample) * total;
  const uint32_t token = scratch.row.draw(choice, target);
  observe(scratch, row, settings, choice, total, token);
  return static_cast<TokenId>(token);
}

// The row as the model gave it.
void restore(Scratch& scratch, const SampleRow& row, const Settings& settings) {
  if (edited(row, settings) || settings.penalises()) {
    scratch.row.load(row.logits, row.vocabulary);
  }
}

TokenId best_token(const Scratch& scratch, const SampleRow& row) {
  const float* end = row.logits + row.vocabulary;
  const float best = scratch.row.scans().highest(row.logits, row.vocabulary);
  if (!(best > Row::kNothing)) return kNoToken;
  const bool none =
      std::isinf(best) && std::none_of(row.logits, end, [](float x) { return std::isfinite(x); });
  return none ? kNoToken : static_cast<TokenId>(std::find(row.logits, end, best) - row.logits);
}

}  // namespace

void sample_row(Scratch& scratch, const SampleRow& row, Settings& settings, SampleResult& result) {
  clear(result);
  if (row.vocabulary == 0) return;
  const bool scored = row.score != kNoToken;
  if (scored && static_cast<uint32_t>(row.score) >= row.vocabulary) return;
  const bool logprobs = scored || wants_logprobs(settings, result);
  if (settings.greedy() && !logprobs && !edited(row, settings) && !settings.penalises()) {
    result.token = best_token(scratch, row);
    return;
  }
  scratch.row.load(row.logits, row.vocabulary);
  if (!can_be_drawn(scratch.row, row.logits)) return;
  if (!logprobs) {
    result.token = draw(scratch, row, settings);
    return;
  }
  const Logprobs report(scratch, result);
  const TokenId token = scored ? row.score : draw(scratch, row, settings);
  if (token == kNoToken) {
    result.top_count = 0;
    return;
  }
  if (!scored) restore(scratch, row, settings);
  report.of(token, result);
  result.token = token;
}

void distribute(Scratch& scratch, const SampleRow& row, const Settings& settings,
                std::span<float> probs) {
  std::fill(probs.begin(), probs.end(), 0.0f);
  if (row.vocabulary == 0 || probs.size() < row.vocabulary) return;
  scratch.row.load(row.logits, row.vocabulary);
  Choice choice;
  if (!choose(scratch, row, settings, choice)) return;
  if (settings.greedy()) {
    probs[scratch.row.best().id] = 1.0f;
    return;
  }
  const double total = scratch.row.weigh(choice);
  scratch.row.probabilities(choice, total, probs.first(row.vocabulary));
}

void settle(Scratch& scratch, const SampleRow& row, Settings& settings, TokenId token, float p,
            SampleResult& result) {
  if (settings.mirostat()) settings.observe(generated(row), -std::log2(p));
  if (wants_logprobs(settings, result)) {
    SampleRow scored = row;
    scored.score = token;
    sample_row(scratch, scored, settings, result);
  }
  result.token = token;
}

}  // namespace tenon::standard
