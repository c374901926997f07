// A sampler without a number to tune: tokens stay that are at least as likely as two draws are to
// agree.
//
// p-less sampling (Tan, Wu, Howard, 2025). The probability that two independent draws give the same
// token is Σ p²: near 1 where the model is certain, near 0 where everything is possible. Taken as
// the least probability that stays, it cuts hard where one token is right and leaves many where
// many are. The most likely token always stays, since Σ p² ≤ Σ p·max = max.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/random.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace {

using namespace tenon;

// Of a row that may be drawn from: -inf where a token is banned, or its logit is no number.
float logit_of(const SampleRow& row, uint32_t token) {
  const bool banned = row.allowed != nullptr && (row.allowed[token / 64] >> token % 64 & 1) == 0;
  return banned || std::isnan(row.logits[token]) ? -std::numeric_limits<float>::infinity()
                                                 : row.logits[token];
}

class PLess {
 public:
  PLess(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  void begin(SeqId seq, const SamplingParams& params, SeqId) {
    temperatures_[seq] = params.temperature;
  }
  void end(SeqId seq) { temperatures_.erase(seq); }

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) results[i].token = draw(rows[i]);
  }
  // What would be drawn without drafts is drawn with them: exact verification.
  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Status status = sdk::check_tree(rows[i], results[i]); !status.ok()) return status;
      sdk::walk_drafts(rows[i], results[i], [&](size_t row, SampleResult& result) {
        result.token = draw(rows[i].rows[row]);
      });
    }
    return {};
  }
  void distribution(const SampleRow& row, std::span<float> probs) const {
    const std::vector<double> shares = shares_of(row);
    std::transform(shares.begin(), shares.end(), probs.begin(),
                   [](double share) { return static_cast<float>(share); });
  }

 private:
  // What the row is drawn from; all zero where nothing can be.
  std::vector<double> shares_of(const SampleRow& row) const {
    std::vector<double> shares(row.vocabulary, 0.0);
    // The lowest id among equals.
    uint32_t best = 0;
    for (uint32_t token = 1; token < row.vocabulary; ++token) {
      if (logit_of(row, token) > logit_of(row, best)) best = token;
    }
    const double highest = logit_of(row, best);
    if (!std::isfinite(highest)) return shares;
    const auto found = temperatures_.find(row.seq);
    const float temperature = found == temperatures_.end() ? 1.0f : found->second;
    if (temperature <= 0.0f) {
      shares[best] = 1.0;
      return shares;
    }
    double total = 0.0, agree = 0.0, kept = 0.0;
    for (uint32_t token = 0; token < row.vocabulary; ++token) {
      total += shares[token] = std::exp((logit_of(row, token) - highest) / temperature);
    }
    for (double& share : shares) {
      share /= total;
      agree += share * share;
    }
    // The most likely one stays also where rounding has put the sum above it.
    agree = std::min(agree, shares[best]);
    for (double& share : shares) kept += share = share < agree ? 0.0 : share;
    for (double& share : shares) share /= kept;
    return shares;
  }

  TokenId draw(const SampleRow& row) const {
    if (row.score != kNoToken) return row.score;
    const std::vector<double> shares = shares_of(row);
    double left = sdk::uniform(row.key, RandomPurpose::sample);
    TokenId last = kNoToken;
    for (uint32_t token = 0; token < row.vocabulary; ++token) {
      if (shares[token] <= 0.0) continue;
      last = static_cast<TokenId>(token);
      left -= shares[token];
      if (left < 0.0) break;
    }
    return last;
  }

  std::unordered_map<SeqId, float> temperatures_;  // written by `begin` and `end` alone
};

// What is not named here is refused before a request begins: the point is to have no other number.
constexpr Fact kProvides[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact"},
    {.key = "sampler.trees", .op = FactOp::in, .number = 0, .words = "none exact"},
    {.key = "sampler.stages", .op = FactOp::in, .number = 0, .words = "temperature"},
};
constexpr PluginDescriptor kPLess = sdk::with_facts(
    sdk::descriptor<Sampler, PLess>(
        {.id = "example.p_less",
         .version = "1.0.0",
         .summary = "keeps tokens that are at least as likely as two draws are to agree",
         .license = "Apache-2.0"}),
    kProvides);

}  // namespace

TENON_PLUGIN_LIBRARY(&kPLess)
