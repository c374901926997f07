// Greedy choice, temperature, top-k and top-p, in this order.
//
// Temperature divides the logits, top-k keeps the k most likely tokens, top-p (nucleus sampling,
// Holtzman et al., ICLR 2020) keeps the shortest list of them whose probability, among what top-k
// left, reaches p. Among equal logits lower ids come first everywhere. What is left is drawn from
// with one random number of the row's key. Drafts are verified exactly: every row is drawn from as
// if there were no drafts, and drafts are accepted as long as they are equal.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plugins/sampler/standard/row.h"

namespace tenon {
namespace {

using standard::Candidate;
using standard::Row;

struct Scratch {
  Row row;
  std::vector<Candidate> candidates;
  std::vector<float> probs;  // the target's, under rejection
};

// The shortest list that reaches p of `total`, without sorting the vocabulary: first among the few
// most likely, then among more.
Candidate nucleus(Scratch& scratch, uint32_t vocabulary, float scale, double target) {
  for (uint64_t count = 128;; count *= 32) {
    const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(count, vocabulary));
    scratch.row.select(wanted, scratch.candidates);
    const bool all = scratch.candidates.size() < wanted || wanted == vocabulary;
    const double weight = standard::weigh(scratch.candidates, scratch.row.max(), scale);
    if (all || weight >= target) return standard::reach(scratch.candidates, target);
  }
}

// What is drawn from: tokens up to `last` in the order of selection, their logits times `scale`.
struct Kept {
  Candidate last;
  float scale;
};

Kept keep(Scratch& scratch, uint32_t vocabulary, const SamplingParams& params) {
  const float scale = std::min(1.0f / params.temperature, std::numeric_limits<float>::max());
  Candidate last{std::numeric_limits<float>::lowest(), vocabulary - 1};
  const bool few = params.top_k > 0 && params.top_k < vocabulary;
  if (few) {
    scratch.row.select(params.top_k, scratch.candidates);
    last =
        *std::max_element(scratch.candidates.begin(), scratch.candidates.end(), standard::before);
  }
  if (params.top_p < 1.0f) {
    const double kept = few ? standard::weigh(scratch.candidates, scratch.row.max(), scale)
                            : scratch.row.weigh(last, scale);
    const double target = static_cast<double>(params.top_p) * kept;
    last = few ? standard::reach(scratch.candidates, target)
               : nucleus(scratch, vocabulary, scale, target);
  }
  return {last, scale};
}

uint32_t draw(Scratch& scratch, const SampleRow& row, const SamplingParams& params) {
  if (params.temperature <= 0.0f) return scratch.row.best();
  const Kept kept = keep(scratch, row.vocabulary, params);
  const double total = scratch.row.weigh(kept.last, kept.scale);
  return scratch.row.draw(kept.last, kept.scale,
                          sdk::uniform(row.key, RandomPurpose::sample) * total);
}

void distribute(Scratch& scratch, const SampleRow& row, const SamplingParams& params,
                std::span<float> probs) {
  std::fill(probs.begin(), probs.end(), 0.0f);
  if (row.vocabulary == 0 || probs.size() < row.vocabulary) return;
  scratch.row.load(row.logits, row.vocabulary);
  if (row.allowed != nullptr && !scratch.row.empty()) scratch.row.mask(row.allowed);
  if (scratch.row.empty()) return;
  if (params.temperature <= 0.0f) {
    probs[scratch.row.best()] = 1.0f;
    return;
  }
  const Kept kept = keep(scratch, row.vocabulary, params);
  const double total = scratch.row.weigh(kept.last, kept.scale);
  scratch.row.probabilities(kept.last, kept.scale, total, probs);
}

// Of the raw logits, before anything is taken out.
class Logprobs {
 public:
  Logprobs(Scratch& scratch, uint32_t vocabulary, SampleResult& result) {
    Row& row = scratch.row;
    const double total = row.weigh({std::numeric_limits<float>::lowest(), vocabulary - 1}, 1.0f);
    offset_ = -static_cast<double>(row.max()) - std::log(total);
    const auto count = static_cast<uint32_t>(std::min<size_t>(result.top.size(), vocabulary));
    row.select(count, scratch.candidates);
    std::sort(scratch.candidates.begin(), scratch.candidates.end(), standard::before);
    result.top_count = static_cast<uint32_t>(scratch.candidates.size());
    for (uint32_t i = 0; i < result.top_count; ++i) {
      const Candidate& candidate = scratch.candidates[i];
      result.top[i] = {static_cast<TokenId>(candidate.id), of(candidate.logit)};
    }
  }
  float of(float logit) const { return static_cast<float>(logit + offset_); }

 private:
  double offset_;
};

void sample_row(Scratch& scratch, const SampleRow& row, const SamplingParams& params,
                SampleResult& result) {
  result.token = kNoToken;
  result.logprob = 0.0f;
  result.top_count = 0;
  result.rank = 0;
  if (row.vocabulary == 0) return;
  const bool wants_logprobs = params.logprobs > 0 || !result.top.empty();
  if (row.score != kNoToken && !wants_logprobs) {
    result.token = row.score;
    return;
  }
  if (params.temperature <= 0.0f && !wants_logprobs && row.allowed == nullptr) {
    uint32_t best = 0;
    if (standard::best_of(row.logits, row.vocabulary, best))
      result.token = static_cast<TokenId>(best);
    return;
  }
  scratch.row.load(row.logits, row.vocabulary);
  if (scratch.row.empty()) return;
  if (!wants_logprobs) {
    if (row.allowed != nullptr) scratch.row.mask(row.allowed);
    if (scratch.row.empty()) return;
    result.token = static_cast<TokenId>(draw(scratch, row, params));
    return;
  }
  const Logprobs logprobs(scratch, row.vocabulary, result);
  if (row.score != kNoToken) {
    result.token = row.score;
    result.logprob = logprobs.of(scratch.row.logit(static_cast<uint32_t>(row.score)));
    result.rank = scratch.row.rank(static_cast<uint32_t>(row.score));
    return;
  }
  if (row.allowed != nullptr) scratch.row.mask(row.allowed);
  if (scratch.row.empty()) return;
  const uint32_t token = draw(scratch, row, params);
  result.rank = scratch.row.rank(token);
  result.token = static_cast<TokenId>(token);
  result.logprob = logprobs.of(scratch.row.logit(token));
}

class StandardSampler final : public Sampler {
 public:
  StandardSampler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  Status begin(SeqId seq, const SamplingParams& params, SeqId) noexcept override {
    return sdk::guard([&] {
      params_[seq] = params;
      return Status();
    });
  }
  void end(SeqId seq) noexcept override { params_.erase(seq); }

  Status sample(std::span<const SampleRow> rows,
                std::span<SampleResult> results) noexcept override {
    return with_scratch([&](Scratch& scratch) {
      for (size_t i = 0; i < rows.size(); ++i) {
        sample_row(scratch, rows[i], params_of(rows[i].seq), results[i]);
      }
    });
  }

  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override {
    return with_scratch(
        [&](Scratch& scratch) { distribute(scratch, row, params_of(row.seq), probs); });
  }

  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override {
    return with_scratch([&](Scratch& scratch) {
      for (size_t i = 0; i < rows.size(); ++i) verify_one(scratch, rows[i], results[i]);
    });
  }

 private:
  void verify_one(Scratch& scratch, const VerifyRows& rows, VerifyResult& out) const {
    const SamplingParams& params = params_of(rows.rows[0].seq);
    out.count = 0;
    if (rows.draft_probs != nullptr) return verify_by_rejection(scratch, rows, params, out);
    for (size_t i = 0; i <= rows.drafts.size(); ++i) {
      sample_row(scratch, rows.rows[i], params, out.tokens[i]);
      const TokenId token = out.tokens[i].token;
      // Tokens that were drawn before a row that failed are still good.
      if (token == kNoToken) return;
      ++out.count;
      if (i == rows.drafts.size() || token != rows.drafts[i]) return;
    }
  }

  // Accept draft x with min(1, p(x)/q(x)); in place of the first that is not, one from
  // max(p - q, 0) (Leviathan et al. 2023; Chen et al. 2023).
  static void verify_by_rejection(Scratch& scratch, const VerifyRows& rows,
                                  const SamplingParams& params, VerifyResult& out) {
    for (size_t i = 0; i < rows.drafts.size(); ++i) {
      const SampleRow& row = rows.rows[i];
      const float* q = rows.draft_probs + i * row.vocabulary;
      scratch.probs.resize(row.vocabulary);
      distribute(scratch, row, params, scratch.probs);
      const TokenId draft = rows.drafts[i];
      const bool known = draft >= 0 && static_cast<uint32_t>(draft) < row.vocabulary;
      const size_t at = known ? static_cast<size_t>(draft) : 0;
      const double chance = sdk::uniform(row.key, RandomPurpose::accept);
      const bool accepted = known && chance * q[at] < scratch.probs[at];
      const TokenId token = accepted ? draft : recover(scratch.probs, known ? q : nullptr, row.key);
      SampleRow scored = row;
      scored.score = token;
      if (token == kNoToken) return;
      sample_row(scratch, scored, params, out.tokens[out.count]);
      ++out.count;
      if (!accepted) return;
    }
    const size_t last = rows.drafts.size();
    sample_row(scratch, rows.rows[last], params, out.tokens[last]);
    if (out.tokens[last].token != kNoToken) ++out.count;
  }

  static TokenId recover(std::span<const float> p, const float* q, const RandomKey& key) {
    const auto left = [&](size_t i) { return q == nullptr ? p[i] : std::max(0.0f, p[i] - q[i]); };
    double total = 0.0;
    for (size_t i = 0; i < p.size(); ++i) total += left(i);
    // Nothing is left only where p equals q but for rounding.
    if (!(total > 0.0)) return q == nullptr ? kNoToken : recover(p, nullptr, key);
    const double target = sdk::uniform(key, RandomPurpose::recover) * total;
    double sum = 0.0;
    TokenId token = kNoToken;
    for (size_t i = 0; i < p.size() && sum <= target; ++i) {
      if (!(left(i) > 0.0f)) continue;
      token = static_cast<TokenId>(i);
      sum += left(i);
    }
    return token;
  }

  const SamplingParams& params_of(SeqId seq) const {
    static constexpr SamplingParams kDefaults;
    const auto found = params_.find(seq);
    return found == params_.end() ? kDefaults : found->second;
  }

  // Rows may be sampled on several threads: each call borrows a scratch of its own.
  template <typename Body>
  Status with_scratch(Body&& body) noexcept {
    return sdk::guard([&] {
      std::unique_ptr<Scratch> scratch;
      {
        const std::lock_guard lock(mutex_);
        if (!spare_.empty()) scratch = std::move(spare_.back()), spare_.pop_back();
      }
      if (scratch == nullptr) scratch = std::make_unique<Scratch>();
      body(*scratch);
      const std::lock_guard lock(mutex_);
      spare_.push_back(std::move(scratch));
      return Status();
    });
  }

  std::unordered_map<SeqId, SamplingParams> params_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> spare_;
};

constexpr Fact kProvides[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact rejection"},
};
constexpr PluginDescriptor kStandard =
    sdk::with_facts(sdk::descriptor<Sampler, StandardSampler>(
                        {.interface = kSamplerInterface,
                         .id = "standard",
                         .version = "1.0.0",
                         .summary = "greedy, temperature, top-k and top-p; verifies drafts",
                         .license = "Apache-2.0"}),
                    kProvides);

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kStandard)
