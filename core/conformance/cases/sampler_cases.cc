// What <tenon/sampler.h> promises of draws.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/conformance/bench/sampler_bench.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/conformance/worlds/slices.h"

namespace tenon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Finding follows_the_key_alone(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    std::vector<TestRow> rows(24 * subject.effort());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].logits = test_logits(random, kTestVocabulary);
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
      return broke("the row at position " + std::to_string(i) + " gives token " +
                   std::to_string(alone[i]) + " alone, " + std::to_string((*together)[i]) +
                   " in a batch, " + std::to_string(last) + " in another order");
    }
    return {};
  });
}

Finding differs_by_key(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  return with_sampler(subject, params, [&](Sampler& sampler) -> Finding {
    TestRow row;
    row.logits.assign(kTestVocabulary, 0.0f);  // all as likely
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
        return broke(std::to_string(kTestVocabulary) +
                     " equally likely tokens, and 24 keys that differ in " + std::string(what) +
                     " all draw token " + std::to_string(seen[0]));
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
                   std::to_string(*last));
    }
    for (uint32_t i = 0; i < 20 * subject.effort(); ++i) {
      TestRow row;
      row.logits = test_logits(random, kTestVocabulary);
      row.key = {subject.seed(), 0, i};
      // Two equals: the lower id counts.
      const uint32_t first = random.below(kTestVocabulary - 1);
      const uint32_t second = first + 1 + random.below(kTestVocabulary - first - 1);
      row.logits[first] = row.logits[second] = 9.0f;
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token == static_cast<TokenId>(first)) continue;
      return broke("at temperature 0 it draws token " + std::to_string(*token) + ", not " +
                   std::to_string(first) + ", the lowest id of the two most likely");
    }
    return {};
  });
}

Finding allowed_alone(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 60 * subject.effort(); ++i) {
      TestRow row;
      row.logits = test_logits(random, kTestVocabulary);
      row.key = {subject.seed(), 0, i};
      row.allowed.assign((kTestVocabulary + 63) / 64, 0);
      for (uint32_t bit = 0; bit < 3; ++bit) {
        const uint32_t token = random.below(kTestVocabulary);
        row.allowed[token / 64] |= uint64_t{1} << token % 64;
      }
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      const auto is_allowed = [&row](size_t one) {
        return (row.allowed[one / 64] >> one % 64 & 1) != 0;
      };
      if (*token == kNoToken || !is_allowed(static_cast<size_t>(*token))) {
        return broke("it draws token " + std::to_string(*token) +
                     ", which `allowed` does not have");
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

// The plugin itself is asked, since the host's checks take tokens of such rows back.
Finding faulty_rows(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  return with_sampler_bench(subject, params, [&](SamplerBench& bench) -> Finding {
    CaseRandom random(subject.seed());
    std::vector<TestRow> rows(5);
    for (uint32_t i = 0; i < rows.size(); ++i) {
      rows[i].logits = test_logits(random, kTestVocabulary);
      rows[i].key.position = i;
    }
    std::fill(rows[4].logits.begin(), rows[4].logits.end(), kInfinity);
    std::fill(rows[1].logits.begin(), rows[1].logits.end(), -kInfinity);
    std::fill(rows[2].logits.begin(), rows[2].logits.end(), kNan);
    rows[3].logits.assign(kTestVocabulary, kNan);
    rows[3].logits[17] = -3.0f;
    const auto tokens = draw(*bench.plugin, rows);
    if (!tokens.ok()) {
      return broke("a row without any finite logit fails the call, with all of its rows: " +
                   message_of(tokens.status()));
    }
    if ((*tokens)[1] != kNoToken || (*tokens)[2] != kNoToken || (*tokens)[4] != kNoToken) {
      return broke("rows of -inf, of NaN and of +inf alone give tokens " +
                   std::to_string((*tokens)[1]) + ", " + std::to_string((*tokens)[2]) + " and " +
                   std::to_string((*tokens)[4]) + ", not kNoToken");
    }
    if ((*tokens)[0] == kNoToken) return broke("a sound row fails beside a faulty one");
    if ((*tokens)[3] == 17) return {};
    return broke("of a row with one finite logit, of token 17, it draws " +
                 std::to_string((*tokens)[3]));
  });
}

// One token is likelier than all others by so much that it is drawn whatever the key; the
// exponential of its logit is no number.
Finding draws_among_large_logits(Subject& subject) {
  return with_sampler(subject, params_of(1.0f, subject.seed()), [&](Sampler& sampler) -> Finding {
    CaseRandom random(subject.seed());
    for (uint32_t i = 0; i < 20 * subject.effort(); ++i) {
      TestRow row = test_row(random, i);
      const auto likely = static_cast<TokenId>(random.below(kTestVocabulary));
      const float height = i % 2 == 0 ? 1000.0f : -1000.0f;
      for (float& logit : row.logits) logit += height;
      row.logits[static_cast<size_t>(likely)] += 1000.0f;
      const auto token = draw_one(sampler, row);
      if (!token.ok()) return failed_call(token.status());
      if (*token == likely) continue;
      return broke("of logits around " + std::to_string(static_cast<int>(height)) +
                   ", of which that of token " + std::to_string(likely) +
                   " is higher by 1000, it draws token " + std::to_string(*token));
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
      row.logits = test_logits(random, kTestVocabulary, 1.0f);
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

Finding follows_forks(Subject& subject) {
  const SamplingParams params = params_of(1.0f, subject.seed());
  auto made = SamplerBench::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  Sampler& sampler = *made->sampler;
  CaseRandom random(subject.seed());
  TestRow row;
  row.logits = test_logits(random, kTestVocabulary);
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

Finding forgets_sequences(Subject& subject) {
  auto made = SamplerBench::make(subject);
  if (!made.ok()) return broke(message_of(made.status()));
  Sampler& sampler = *made->sampler;
  CaseRandom random(subject.seed());
  TestRow row;
  row.logits = test_logits(random, kTestVocabulary);
  const SamplingParams params = params_of(0.8f, subject.seed());
  return forgets_the_ended(subject.effort(), [&](SeqId seq) -> Status {
    row.seq = seq;
    TENON_RETURN_IF_ERROR(sampler.begin(seq, params, kNoSeq));
    TENON_RETURN_IF_ERROR(draw_one(sampler, row).take_status());
    return sampler.end(seq);
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
      row.logits = test_logits(random, kTestVocabulary);
      row.key = {subject.seed(), t, i};
    }
  }
  // Rounds enough that threads meet, also where they share one processor.
  constexpr uint32_t kRounds = 25;
  std::vector<std::vector<TokenId>> alone(kThreads);
  const auto draw_all = [&](uint32_t t) {
    std::vector<TokenId> drawn;
    for (const TestRow& row : rows[t]) {
      const auto token = draw_one(*made->sampler, row);
      drawn.push_back(token.ok() ? *token : kNoToken);
    }
    return drawn;
  };
  for (uint32_t t = 0; t < kThreads; ++t) alone[t] = draw_all(t);
  const Status drawn_at_once = run_at_once(kThreads, [&](uint32_t t) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (draw_all(t) != alone[t]) return Status::error(StatusCode::failed, "other tokens");
    }
    return Status();
  });
  if (drawn_at_once.ok()) return {};
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
    row.logits = test_logits(random, kTestVocabulary);
    row.key = {seed, 0, i};
    TENON_ASSIGN_OR_RETURN(const TokenId token, draw_one(*made.sampler, row));
    transcript.push_back("row " + std::to_string(i) + ": token " + std::to_string(token));
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
      {"sampler.large_logits", kOf, kHeader, "A sampler may assume that logits are finite or -inf",
       &draws_among_large_logits},
      {"sampler.top_k", kOf, kHeader, "keep the k most likely; 0 = all", &keeps_the_most_likely},
      {"sampler.forks", kOf, kHeader, "`begin` and `end` are [step]", &follows_forks},
      {"sampler.ended_sequences", kOf, "types.h", "Nothing is kept across calls",
       &forgets_sequences},
      {"sampler.threads", kOf, kHeader,
       "the others are [any] and may run at the same time for rows of different sequences.",
       &sampled_by_several_threads},
  };
}

}  // namespace tenon