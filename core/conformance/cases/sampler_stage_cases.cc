// What becomes of a row between the model's logits and the draw, stage by stage: by the formulas of
// <tenon/sampler.h>, for those stages that a sampler names in its facts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/conformance/bench/sampler_bench.h"
#include "core/conformance/cases/cases.h"

namespace tenon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Eight tokens: what is drawn is counted.
class SmallRow {
 public:
  static constexpr uint32_t kTokens = 8;
  explicit SmallRow(Subject& subject) : subject_(subject) {
    CaseRandom random(subject.seed());
    row_.logits = test_logits(random, kTokens, 1.5f);
    row_.history = {1, 2, 3, 5, 5};
    shown_ = row_.logits;
  }
  void know(std::vector<TokenId> history) { row_.history = std::move(history); }
  // What the model says, to be changed into what is to be drawn from.
  std::vector<float>& logits() { return shown_; }
  // Cuts all tokens but these.
  template <typename Keep>
  void keep(Keep keep) {
    for (uint32_t token = 0; token < kTokens; ++token) {
      if (!keep(token)) shown_[token] = -kInfinity;
    }
  }
  std::vector<double> shares() const {
    std::vector<double> made;
    double total = 0;
    for (const float logit : shown_) total += made.emplace_back(std::exp(double{logit}));
    for (double& share : made) share /= total;
    return made;
  }

  // Draws under `params`, whose spans end with `begin`, against shares().
  Finding compare(const SamplingParams& params, const std::string& with) {
    return with_sampler(subject_, params, [&](Sampler& sampler) { return count(sampler, with); });
  }
  Finding count(Sampler& sampler, const std::string& with) {
    const uint32_t draws = 2000 * subject_.effort();
    const std::vector<double> wanted = shares();
    std::vector<uint32_t> counts(kTokens);
    for (uint32_t i = 0; i < draws; ++i) {
      row_.key = {subject_.seed() + 2, i % 5, i};
      const auto token = draw_one(sampler, row_);
      if (!token.ok()) return failed_call(token.status());
      if (*token == kNoToken) return broke(with + " a sound row is not drawn from");
      ++counts[static_cast<size_t>(*token)];
    }
    for (uint32_t token = 0; token < kTokens; ++token) {
      const double share = static_cast<double>(counts[token]) / draws;
      // Seven standard deviations: chance has no part in it.
      const double most = 7 * std::sqrt(wanted[token] * (1 - wanted[token]) / draws) + 1.0 / draws;
      if (std::abs(share - wanted[token]) <= most && (wanted[token] > 0 || counts[token] == 0)) {
        continue;
      }
      return broke(with + " token " + std::to_string(token) + " is to be drawn " +
                   std::to_string(wanted[token]) + " of the time, and is " + std::to_string(share));
    }
    return {};
  }

 private:
  Subject& subject_;
  TestRow row_;
  std::vector<float> shown_;
};

// A stage that the sampler names in its facts, looked at by `look`. One that cuts of its own
// accord, with nothing asked for, has other distributions than these.
template <typename Look>
Finding stage(Subject& subject, std::string_view name, Look look) {
  if (!subject.provides("sampler.stages", name)) {
    return skipped("it has no stage " + std::string(name));
  }
  SmallRow plain(subject);
  if (plain.compare(params_of(1.0f, subject.seed()), "").verdict != CaseVerdict::pass) {
    return skipped("with nothing asked for it draws from another distribution than the model's");
  }
  return look();
}

// A row of which `change` makes what is to be drawn from when `asked` is asked for.
template <typename Change>
Finding changes(Subject& subject, std::string_view name, SamplingParams asked,
                const std::string& with, Change change) {
  return stage(subject, name, [&] {
    SmallRow row(subject);
    change(row);
    asked.seed = subject.seed();
    return row.compare(asked, with);
  });
}

Finding follows_temperature(Subject& subject) {
  for (const float temperature : {0.5f, 2.0f}) {
    Finding found =
        changes(subject, "temperature", {.temperature = temperature},
                "at temperature " + std::to_string(temperature).substr(0, 3), [&](SmallRow& row) {
                  for (float& logit : row.logits()) logit /= temperature;
                });
    if (found.verdict != CaseVerdict::pass) return found;
  }
  return {};
}

Finding follows_top_p(Subject& subject) {
  return changes(subject, "top_p", {.top_p = 0.6f}, "with top_p 0.6", [](SmallRow& row) {
    const std::vector<double> shares = row.shares();
    row.keep([&](uint32_t token) {
      double likelier = 0;
      for (const double share : shares) likelier += share > shares[token] ? share : 0;
      return likelier < 0.6;
    });
  });
}

Finding follows_min_p(Subject& subject) {
  return changes(subject, "min_p", {.min_p = 0.3f}, "with min_p 0.3", [](SmallRow& row) {
    const std::vector<double> shares = row.shares();
    const double most = *std::max_element(shares.begin(), shares.end());
    row.keep([&](uint32_t token) { return shares[token] >= 0.3 * most; });
  });
}

Finding follows_penalties(Subject& subject) {
  const SamplingParams asked = {
      .repetition_penalty = 1.5f, .presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  return changes(subject, "penalties", asked, "with all three penalties", [](SmallRow& row) {
    std::vector<float>& logits = row.logits();
    for (const uint32_t seen : {1, 2, 3, 5}) {
      logits[seen] = logits[seen] > 0 ? logits[seen] / 1.5f : logits[seen] * 1.5f;
    }
    logits[3] -= 0.5f + 0.25f;
    logits[5] -= 0.5f + 2 * 0.25f;
  });
}

Finding follows_top_n_sigma(Subject& subject) {
  return changes(subject, "top_n_sigma", {.top_n_sigma = 1e-3f}, "with top_n_sigma 0.001",
                 [](SmallRow& row) {
                   const std::vector<float> all = row.logits();
                   const float most = *std::max_element(all.begin(), all.end());
                   row.keep([&](uint32_t token) { return all[token] == most; });
                 });
}

Finding follows_xtc(Subject& subject) {
  constexpr float kThreshold = 0.08f;
  return changes(subject, "xtc", {.xtc_probability = 1.0f, .xtc_threshold = kThreshold},
                 "with xtc_probability 1 and xtc_threshold 0.08", [](SmallRow& row) {
                   const std::vector<double> shares = row.shares();
                   double least = 1;
                   for (const double share : shares) {
                     least = share >= kThreshold ? std::min(least, share) : least;
                   }
                   row.keep([&](uint32_t token) { return shares[token] <= least; });
                 });
}

Finding follows_dry(Subject& subject) {
  return changes(subject, "dry", {.dry_multiplier = 1000.0f},
                 "with dry_multiplier 1000 behind a repetition that goes on with 3",
                 [](SmallRow& row) {
                   row.know({6, 1, 2, 3, 4, 1, 2});
                   row.keep([](uint32_t token) { return token != 3; });
                 });
}

// What `begin` was lent is gone afterwards.
Finding follows_bias(Subject& subject) {
  return stage(subject, "bias", [&]() -> Finding {
    SmallRow row(subject);
    row.logits()[2] += 2.0f;
    row.logits()[3] -= 1.0f;
    std::vector<LogitBias> lent = {{2, 2.0f}, {3, -1.0f}};
    SamplingParams params = params_of(1.0f, subject.seed());
    params.logit_bias = lent;
    return with_sampler(subject, params, [&](Sampler& sampler) {
      std::fill(lent.begin(), lent.end(), LogitBias{6, 9.0f});
      return row.count(sampler, "with a bias on tokens 2 and 3");
    });
  });
}

Finding follows_bans(Subject& subject) {
  return stage(subject, "bans", [&]() -> Finding {
    SmallRow row(subject);
    row.keep([](uint32_t token) { return token == 0 || token == 1 || token == 7; });
    std::vector<TokenId> allowed = {0, 1, 4, 6, 7}, word = {4}, words = {5, 6};
    std::vector<std::span<const TokenId>> bad = {word, words};
    SamplingParams params = params_of(1.0f, subject.seed());
    params.allowed_tokens = allowed;
    params.bad_words = bad;
    return with_sampler(subject, params, [&](Sampler& sampler) {
      for (auto* lent : {&allowed, &word, &words}) std::fill(lent->begin(), lent->end(), 2);
      return row.count(sampler, "with tokens that are banned, alone or behind another one,");
    });
  });
}

}  // namespace

CaseList sampler_stage_cases() {
  constexpr std::string_view kOf = "sampler", kHeader = "sampler.h";
  return {
      {"sampler.temperature", kOf, kHeader,
       "What a request asked for. Defaults leave the distribution as it is.", &follows_temperature},
      {"sampler.top_p", kOf, kHeader, "keep the smallest set whose probability reaches p",
       &follows_top_p},
      {"sampler.min_p", kOf, kHeader,
       "keep what has this share of the most likely's probability; 0 = all", &follows_min_p},
      {"sampler.top_n_sigma", kOf, kHeader,
       "keep logits within n standard deviations of the highest; 0 = all", &follows_top_n_sigma},
      {"sampler.xtc", kOf, kHeader, "how often the most likely tokens are left out", &follows_xtc},
      {"sampler.dry", kOf, kHeader, "against repeated sequences", &follows_dry},
      {"sampler.penalties", kOf, kHeader, "divides (or, below 0, multiplies) logits of seen tokens",
       &follows_penalties},
      {"sampler.bias", kOf, kHeader,
       "Spans are borrowed while `begin` runs: a sampler copies what it needs.", &follows_bias},
      {"sampler.bans", kOf, kHeader, "never generated, each as a whole", &follows_bans},
  };
}

}  // namespace tenon
