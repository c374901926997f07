// What <tenon/sampler.h> promises.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "core/conformance/cases.h"
#include "core/conformance/exercise.h"
#include "core/conformance/sampler_bench.h"

namespace tenon {
namespace {

constexpr uint32_t kVocabulary = 208;  // of whole cache lines: rows end at a forbidden page
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
std::string text(TokenId token) {
  return std::to_string(token);
}

Finding follows_the_key_alone(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    std::vector<TestRow> rows(24 * subject.effort());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].logits = test_logits(random, kVocabulary);
      rows[i].key = {subject.seed(), static_cast<uint32_t>(i % 3), static_cast<uint32_t>(i)};
    }
    std::vector<TokenId> alone;
    for (const TestRow& row : rows) {
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      alone.push_back(*token);
    }
    const auto together = draw(sampler, rows);
    if (!together.ok()) return failed_call(together.status());
    std::reverse(rows.begin(), rows.end());
    const auto reversed = draw(sampler, rows);
    if (!reversed.ok()) return failed_call(reversed.status());
    if (const Status begun = sampler.begin(7, params, kNoSeq); !begun.ok()) {
      return broke("begin fails: " + message_of(begun));
    }
    for (TestRow& row : rows) row.seq = 7;
    const auto elsewhere = draw(sampler, rows);
    if (!elsewhere.ok()) return failed_call(elsewhere.status());
    if (const Status ended = sampler.end(7); !ended.ok()) {
      return broke("end fails: " + message_of(ended));
    }
    if (*elsewhere != *reversed) {
      return broke("rows of another sequence with the same logits and keys give other tokens");
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const TokenId last = (*reversed)[rows.size() - 1 - i];
      if ((*together)[i] == alone[i] && last == alone[i]) continue;
      return broke("the row at position " + std::to_string(i) + " gives token " + text(alone[i]) +
                   " alone, " + text((*together)[i]) + " in a batch, " + text(last) +
                   " in another order");
    }
    return {};
  });
}

Finding differs_by_key(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    TestRow row;
    row.logits.assign(kVocabulary, 0.0f);  // all as likely
    for (const char* what : {"seed", "sample", "position"}) {
      std::vector<TokenId> seen;
      for (uint32_t i = 0; i < 24; ++i) {
        row.key = {subject.seed(), 0, 5};
        if (*what == 's' && what[1] == 'e') row.key.seed += i;
        if (*what == 's' && what[1] == 'a') row.key.sample = i;
        if (*what == 'p') row.key.position = i;
        const auto token = draw_one(sampler, row);
        if (!token.ok()) return failed_call(token.status());
        seen.push_back(*token);
      }
      if (std::adjacent_find(seen.begin(), seen.end(), std::not_equal_to<>()) == seen.end()) {
        return broke(std::to_string(kVocabulary) +
                     " equally likely tokens, and 24 keys that differ in " + std::string(what) +
                     " all draw token " + text(seen[0]));
      }
    }
    return {};
  });
}

Finding greedy(Subject& subject) {
  return with_sampler(subject, params_of(0.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    TestRow large;
    large.logits.assign(152064, 0.0f);
    large.logits.back() = 1.0f;
    const auto last = draw_one(sampler, large);
    if (!last.ok()) return failed_call(last.status());
    if (*last != 152063) {
      return broke("of 152064 tokens, of which the last is the most likely, it draws token " +
                   text(*last));
    }
    for (uint32_t i = 0; i < 20 * subject.effort(); ++i) {
      TestRow row;
      row.logits = test_logits(random, kVocabulary);
      row.key = {subject.seed(), 0, i};
      // Two equals: the lower id counts.
      const uint32_t first = random.below(kVocabulary - 1);
      const uint32_t second = first + 1 + random.below(kVocabulary - first - 1);
      row.logits[first] = row.logits[second] = 9.0f;
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token == static_cast<TokenId>(first)) continue;
      return broke("at temperature 0 it draws token " + text(*token) + ", not " +
                   std::to_string(first) + ", the lowest id of the two most likely");
    }
    return {};
  });
}

Result<std::vector<float>> distribution_of(Sampler& sampler, const TestRow& row) {
  std::vector<float> probs(row.logits.size(), kNan);
  TENON_RETURN_IF_ERROR(sampler.distribution(row.view(), probs));
  return probs;
}

Finding allowed_alone(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 60 * subject.effort(); ++i) {
      TestRow row;
      row.logits = test_logits(random, kVocabulary);
      row.key = {subject.seed(), 0, i};
      row.allowed.assign((kVocabulary + 63) / 64, 0);
      for (uint32_t bit = 0; bit < 3; ++bit) {
        const uint32_t token = random.below(kVocabulary);
        row.allowed[token / 64] |= uint64_t{1} << token % 64;
      }
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      const auto is_allowed = [&row](size_t one) {
        return (row.allowed[one / 64] >> one % 64 & 1) != 0;
      };
      if (*token == kNoToken || !is_allowed(static_cast<size_t>(*token))) {
        return broke("it draws token " + text(*token) + ", which `allowed` does not have");
      }
      const auto probs = distribution_of(sampler, row);
      for (size_t one = 0; probs.ok() && one < probs->size(); ++one) {
        if ((*probs)[one] == 0 || is_allowed(one)) continue;
        return broke("its distribution has token " + std::to_string(one) +
                     ", which `allowed` does not have");
      }
    }
    return {};
  });
}

Finding faulty_rows(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    std::vector<TestRow> rows(4);
    for (uint32_t i = 0; i < rows.size(); ++i) {
      rows[i].logits = test_logits(random, kVocabulary);
      rows[i].key.position = i;
    }
    std::fill(rows[1].logits.begin(), rows[1].logits.end(), -kInfinity);
    std::fill(rows[2].logits.begin(), rows[2].logits.end(), kNan);
    rows[3].logits.assign(kVocabulary, kNan);
    rows[3].logits[17] = -3.0f;
    const auto tokens = draw(sampler, rows);
    if (!tokens.ok()) {
      return broke("a row without any finite logit fails the call, with all of its rows: " +
                   message_of(tokens.status()));
    }
    if ((*tokens)[1] != kNoToken || (*tokens)[2] != kNoToken) {
      return broke("rows of -inf and of NaN alone give tokens " + text((*tokens)[1]) + " and " +
                   text((*tokens)[2]) + ", not kNoToken");
    }
    if ((*tokens)[0] == kNoToken) return broke("a sound row fails beside a faulty one");
    if ((*tokens)[3] == 17) return {};
    return broke("of a row with one finite logit, of token 17, it draws " + text((*tokens)[3]));
  });
}

Finding scores(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20; ++i) {
      TestRow row;
      row.logits = test_logits(random, kVocabulary);
      row.key.position = i;
      row.score = static_cast<TokenId>(random.below(kVocabulary));
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token != row.score) {
        return broke("asked for the score of token " + text(row.score) + " it gives token " +
                     text(*token));
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
      TestRow row;
      row.logits = test_logits(random, kVocabulary);
      row.key.position = i;
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
        return broke("token " + text(*before) + " before `distribution` was asked, " +
                     text(*after) + " behind it");
      }
      const double sum = std::accumulate(probs->begin(), probs->end(), 0.0);
      if (std::abs(sum - 1.0) > 1e-3) return broke("a distribution sums to " + std::to_string(sum));
    }
    return {};
  });
}

Finding keeps_the_most_likely(Subject& subject) {
  if (!subject.provides("sampler.stages", "top_k")) return skipped("it has no stage top_k");
  SamplingParams params = params_of(1.0f, subject.seed());
  params.top_k = 3;
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 100 * subject.effort(); ++i) {
      TestRow row;
      row.logits = test_logits(random, kVocabulary, 1.0f);
      row.key.position = i;
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token == kNoToken) return broke("a sound row is not drawn from");
      const float drawn = row.logits[static_cast<size_t>(*token)];
      const auto likelier = std::count_if(row.logits.begin(), row.logits.end(),
                                          [&](float logit) { return logit > drawn; });
      if (likelier >= 3) {
        return broke("with top_k 3 it draws a token that " + std::to_string(likelier) +
                     " others are more likely than");
      }
    }
    return {};
  });
}
// What is drawn behind `known` tokens: logits follow from the text alone.
TestRow story_row(const std::vector<TokenId>& text_so_far, uint64_t seed) {
  uint64_t mixed = seed;
  for (const TokenId token : text_so_far) {
    mixed = mixed * 6364136223846793005u + static_cast<uint64_t>(token) + 1;
  }
  CaseRandom random(mixed);
  TestRow row;
  row.logits = test_logits(random, 12, 2.0f);
  row.history = text_so_far;
  row.key = {seed, 0, static_cast<uint32_t>(text_so_far.size())};
  return row;
}

Finding verifies_as_it_draws(Subject& subject) {
  if (!subject.provides("sampler.verify", "exact")) return skipped("it does not verify exactly");
  return with_sampler(subject, params_of(0.8f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t round = 0; round < 40 * subject.effort(); ++round) {
      std::vector<TokenId> known = {1, 2, static_cast<TokenId>(random.below(12))};
      const uint32_t count = random.below(5);
      // What would be drawn without drafts, and drafts that part from it somewhere.
      std::vector<TokenId> wanted, drafts;
      std::vector<TokenId> told = known;
      for (uint32_t i = 0; i <= count; ++i) {
        const auto token = draw_one(sampler, story_row(told, subject.seed()));
        if (!token.ok()) return failed_call(token.status());
        wanted.push_back(*token);
        told.push_back(*token);
      }
      for (uint32_t i = 0; i < count; ++i) {
        drafts.push_back(random.one_in(4) ? static_cast<TokenId>(random.below(12)) : wanted[i]);
      }
      std::vector<TestRow> rows;
      for (uint32_t i = 0; i <= count; ++i) {
        std::vector<TokenId> before = known;
        before.insert(before.end(), drafts.begin(), drafts.begin() + i);
        rows.push_back(story_row(before, subject.seed()));
      }
      std::vector<SampleRow> views;
      for (const TestRow& row : rows) views.push_back(row.view());
      VerifyRows verify;
      verify.rows = views;
      verify.drafts = drafts;
      std::vector<SampleResult> room(count + 1);
      VerifyResult result;
      result.tokens = room;
      if (const Status status = sampler.verify({&verify, 1}, {&result, 1}); !status.ok()) {
        return broke("verify fails: " + message_of(status));
      }
      uint32_t right = 0;
      while (right < count && drafts[right] == wanted[right]) ++right;
      bool same = result.count >= 1 && result.count <= right + 1;
      for (uint32_t i = 0; same && i < result.count; ++i) same = room[i].token == wanted[i];
      if (same) continue;
      return broke("of " + std::to_string(count) + " drafts, of which " + std::to_string(right) +
                   " are what it would have drawn, it keeps " +
                   std::to_string(result.count == 0 ? 0 : result.count - 1) +
                   ", and not the tokens that it draws without drafts");
    }
    return {};
  });
}

Finding verifies_trees(Subject& subject) {
  if (!subject.provides("sampler.trees", "exact")) return skipped("it verifies no trees");
  return with_sampler(subject, params_of(0.8f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t round = 0; round < 20 * subject.effort(); ++round) {
      const std::vector<TokenId> known = {1, 2, static_cast<TokenId>(random.below(12))};
      std::vector<TokenId> wanted, told = known;
      for (uint32_t i = 0; i < 3; ++i) {
        const auto token = draw_one(sampler, story_row(told, subject.seed()));
        if (!token.ok()) return failed_call(token.status());
        told.push_back(*token);
        wanted.push_back(*token);
      }
      // A wrong branch, then the right one, of two.
      const auto other = [](TokenId token) { return (token + 1) % 12; };
      const TokenId drafts[] = {other(wanted[0]), wanted[0], wanted[1], wanted[1]};
      const int32_t parents[] = {-1, -1, 0, 1};
      std::vector<TestRow> rows = {story_row(known, subject.seed())};
      for (const uint32_t draft : {0u, 1u, 2u, 3u}) {
        std::vector<TokenId> before = known;
        if (parents[draft] >= 0) before.push_back(drafts[parents[draft]]);
        before.push_back(drafts[draft]);
        rows.push_back(story_row(before, subject.seed()));
        rows.back().history = known;
      }
      std::vector<SampleRow> views;
      for (const TestRow& row : rows) views.push_back(row.view());
      SampleResult tokens[5];
      uint32_t path[4] = {};
      const VerifyRows verify{views, drafts, parents, nullptr};
      VerifyResult result{tokens, path, 0};
      if (const Status status = sampler.verify({&verify, 1}, {&result, 1}); !status.ok()) {
        return broke("verify fails: " + message_of(status));
      }
      bool same = result.count == 3 && path[0] == 1 && path[1] == 3;
      for (uint32_t i = 0; same && i < 3; ++i) same = tokens[i].token == wanted[i];
      if (same) continue;
      return broke(
          "of a tree whose second branch is what it would have drawn, two tokens deep, it "
          "keeps " +
          std::to_string(result.count == 0 ? 0 : result.count - 1) +
          " drafts, and not the tokens that it draws without drafts");
    }
    return {};
  });
}

Finding follows_forks(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  auto made = SamplerBench::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  Sampler& sampler = *made->sampler;
  CaseRandom random(subject.seed());
  TestRow row;
  row.logits = test_logits(random, kVocabulary);
  row.seq = 2;
  Status status = sampler.begin(1, params, kNoSeq);
  if (status.ok()) status = sampler.begin(2, params, 1);
  if (status.ok()) status = sampler.end(1);  // a parent may end first
  if (status.ok()) status = draw_one(sampler, row).take_status();
  if (status.ok()) status = sampler.begin(1, params, 2);  // ids are used again
  if (status.ok()) status = sampler.end(2);
  if (status.ok()) status = sampler.end(1);
  return status.ok() ? Finding() : broke(message_of(status));
}

Finding reports_log_probabilities(Subject& subject) {
  if (subject.provides_at_most("sampler.logprobs") == 0) return skipped("it reports none");
  SamplingParams params = params_of(0.7f, subject.seed());
  params.logprobs = 3;
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20; ++i) {
      TestRow row;
      row.logits = test_logits(random, kVocabulary);
      row.key.position = i;
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
        return broke("the log probability of token " + text(result.token) + " is " +
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

Finding sampled_by_several_threads(Subject& subject) {
  auto made = SamplerBench::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  constexpr uint32_t kThreads = 3;
  CaseRandom random(subject.seed());
  std::vector<std::vector<TestRow>> rows(kThreads);
  for (uint32_t t = 0; t < kThreads; ++t) {
    const Status status = made->sampler->begin(t + 1, params_of(1.0f, subject.seed()), kNoSeq);
    if (!status.ok()) return broke("begin fails: " + message_of(status));
    for (uint32_t i = 0; i < 60 * subject.effort(); ++i) {
      TestRow& row = rows[t].emplace_back();
      row.seq = t + 1;
      row.logits = test_logits(random, kVocabulary);
      row.key = {subject.seed(), t, i};
    }
  }
  // Rounds enough that threads meet, also where they share one processor.
  constexpr uint32_t kRounds = 25;
  std::vector<std::vector<TokenId>> alone(kThreads);
  std::atomic<bool> differs = false;
  const auto draw_all = [&](uint32_t t) {
    std::vector<TokenId> drawn;
    for (const TestRow& row : rows[t]) {
      const auto token = draw_one(*made->sampler, row);
      drawn.push_back(token.ok() ? *token : kNoToken);
    }
    return drawn;
  };
  for (uint32_t t = 0; t < kThreads; ++t) alone[t] = draw_all(t);
  {
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint32_t round = 0; round < kRounds && !differs; ++round) {
          if (draw_all(t) != alone[t]) differs = true;
        }
      });
    }
  }
  if (!differs) return {};
  return broke("rows of different sequences give other tokens when several threads draw at once");
}

}  // namespace

Result<Transcript> exercise_sampler(Subject& subject, uint64_t seed) {
  TENON_ASSIGN_OR_RETURN(const SamplerBench made, SamplerBench::make(subject));
  Transcript transcript;
  CaseRandom random(seed);
  for (SeqId seq = 1; seq <= 4; ++seq) {
    TENON_RETURN_IF_ERROR(
        made.sampler->begin(seq, params_of(0.5f * static_cast<float>(seq), seed), kNoSeq));
  }
  for (uint32_t i = 0; i < 40; ++i) {
    TestRow row;
    row.seq = 1 + i % 4;
    row.logits = test_logits(random, kVocabulary);
    row.key = {seed, 0, i};
    TENON_ASSIGN_OR_RETURN(const TokenId token, draw_one(*made.sampler, row));
    transcript.push_back("row " + std::to_string(i) + ": token " + text(token));
  }
  for (SeqId seq = 1; seq <= 4; ++seq) TENON_RETURN_IF_ERROR(made.sampler->end(seq));
  return transcript;
}
CaseList sampler_cases() {
  constexpr std::string_view kOf = "sampler", kHeader = "sampler.h";
  return {
      {"sampler.key_alone", kOf, kHeader,
       "the same row with the same key gives the same token in any batch, on any thread, after any "
       "preemption.",
       &follows_the_key_alone},
      {"sampler.key_counts", kOf, kHeader,
       "All randomness comes from a key (seed, sample, position, purpose)", &differs_by_key},
      {"sampler.greedy", kOf, kHeader, "0 = greedy: the most likely token, lowest id among equals",
       &greedy},
      {"sampler.allowed", kOf, kHeader, "bits, low bit first; null = all", &allowed_alone},
      {"sampler.faulty_rows", kOf, kHeader,
       "NaN counts as -inf, and a row without any finite logit fails (only) its own request.",
       &faulty_rows},
      {"sampler.score", kOf, kHeader, "nothing is drawn, the result is this token", &scores},
      {"sampler.distribution", kOf, kHeader,
       "What a row would be drawn from, after every bias, ban and stage",
       &draws_from_its_distribution},
      {"sampler.looking", kOf, kHeader, "never changes what the sequence will draw.",
       &looking_changes_nothing},
      {"sampler.top_k", kOf, kHeader, "keep the k most likely; 0 = all", &keeps_the_most_likely},
      {"sampler.forks", kOf, kHeader, "`begin` and `end` are [step]", &follows_forks},
      {"sampler.trees", kOf, kHeader,
       "of a tree (`parents`), every history is what is known, and the sampler adds the drafts on "
       "the way to the row.",
       &verifies_trees},
      {"sampler.verify", kOf, kHeader,
       "The accepted drafts from the first on, then one token of the target's own",
       &verifies_as_it_draws},
      {"sampler.logprobs", kOf, kHeader, "Log probabilities are those of the model",
       &reports_log_probabilities},
      {"sampler.threads", kOf, kHeader,
       "the others are [any] and may run at the same time for rows of different sequences.",
       &sampled_by_several_threads},
  };
}

}  // namespace tenon