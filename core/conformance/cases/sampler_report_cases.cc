// The promises of <tenon/sampler.h> about results other than draws: scores, distributions,
// log probabilities.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/conformance/bench/sampler_bench.h"
#include "core/conformance/cases/cases.h"

namespace tenon {
namespace {

Finding scores(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20; ++i) {
      TestRow row = test_row(random, i);
      row.score = static_cast<TokenId>(random.below(kTestVocabulary));
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token != row.score) {
        return broke("asked for the score of token " + std::to_string(row.score) +
                     " it gives token " + std::to_string(*token));
      }
    }
    return {};
  });
}

// What is drawn often enough must be what `distribution` says it is drawn from.
Finding draws_from_its_distribution(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    constexpr uint32_t kFew = 8;
    const uint32_t draws = 3000 * subject.effort();
    CaseRandom random(subject.seed());
    TestRow row;
    row.logits = test_logits(random, kFew, 1.5f);
    const auto probs = distribution_of(sampler, row);
    if (!probs.ok() && probs.status().code() == StatusCode::unsupported) {
      return skipped(message_of(probs.status()));
    }
    if (!probs.ok()) return broke("distribution fails: " + message_of(probs.status()));
    std::vector<uint32_t> counts(kFew);
    for (uint32_t i = 0; i < draws; ++i) {
      row.key = {subject.seed() + 1, i % 7, i};
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token == kNoToken) return broke("a sound row is not drawn from");
      ++counts[static_cast<size_t>(*token)];
    }
    for (uint32_t token = 0; token < kFew; ++token) {
      const double share = static_cast<double>(counts[token]) / draws, wanted = (*probs)[token];
      // Seven standard deviations: chance has no part in it.
      const double most = 7 * std::sqrt(wanted * (1 - wanted) / draws) + 1.0 / draws;
      if (std::abs(share - wanted) <= most) continue;
      return broke("token " + std::to_string(token) + " is drawn " + std::to_string(share) +
                   " of the time; its distribution says " + std::to_string(wanted));
    }
    return {};
  });
}

Finding looking_changes_nothing(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20; ++i) {
      TestRow row = test_row(random, i);
      const auto before = draw_one(sampler, row);
      const auto probs = distribution_of(sampler, row);
      const auto after = draw_one(sampler, row);
      if (!before.ok()) return failed_call(before.status());
      if (!after.ok()) return failed_call(after.status());
      if (!probs.ok() && probs.status().code() == StatusCode::unsupported) {
        return skipped(message_of(probs.status()));
      }
      if (!probs.ok()) return broke("distribution fails: " + message_of(probs.status()));
      if (*before != *after) {
        return broke("token " + std::to_string(*before) + " before `distribution` was asked, " +
                     std::to_string(*after) + " behind it");
      }
      const double sum = std::accumulate(probs->begin(), probs->end(), 0.0);
      if (std::abs(sum - 1.0) > 1e-3) return broke("a distribution sums to " + std::to_string(sum));
    }
    return {};
  });
}

Finding reports_log_probabilities(Subject& subject) {
  if (subject.provides_at_most("sampler.logprobs") == 0) return skipped("it reports none");
  SamplingParams params = params_of(0.7f, subject.seed());
  params.logprobs = 3;
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20; ++i) {
      TestRow row = test_row(random, i);
      TokenLogprob top[3];
      SampleResult result;
      result.top = top;
      const SampleRow view = row.view();
      if (const Status status = sampler.sample({&view, 1}, {&result, 1}); !status.ok()) {
        return failed_call(status);
      }
      double total = 0;
      for (const float logit : row.logits) total += std::exp(double{logit});
      const double wanted = row.logits[static_cast<size_t>(result.token)] - std::log(total);
      if (std::abs(result.logprob - wanted) > 1e-3) {
        return broke("the log probability of token " + std::to_string(result.token) + " is " +
                     std::to_string(wanted) + ", it reports " + std::to_string(result.logprob));
      }
      const auto best = std::max_element(row.logits.begin(), row.logits.end());
      if (result.top_count != 3 || top[0].token != best - row.logits.begin() ||
          top[1].logprob > top[0].logprob || top[2].logprob > top[1].logprob) {
        return broke("the three most likely tokens were asked for, and are not what it reports");
      }
    }
    return {};
  });
}

}  // namespace

CaseList sampler_report_cases() {
  constexpr std::string_view kOf = "sampler", kHeader = "sampler.h";
  return {
      {"sampler.score", kOf, kHeader, "nothing is drawn, the result is this token", &scores},
      {"sampler.distribution", kOf, kHeader,
       "What a row would be drawn from, after every bias, ban and stage",
       &draws_from_its_distribution},
      {"sampler.looking", kOf, kHeader, "never changes what the sequence will draw.",
       &looking_changes_nothing},
      {"sampler.logprobs", kOf, kHeader, "Log probabilities are those of the model",
       &reports_log_probabilities},
  };
}

}  // namespace tenon
