// Random traffic for 20,000 steps a profile, every scheduler with every KV manager: shared
// prefixes, forks, cancellations, priorities, tenants, drafts, and mostly too little memory.
// Invariants hold at each step, everybody gets on, and every token is that of the oracle.
//
// After the fuzz test of vLLM's scheduler (tests/v1/core/test_priority_scheduler_random.py).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr uint64_t kSteps = 20000;
constexpr uint32_t kContext = 120;
// In a first come, first served pipeline nobody waits longer for a next token.
constexpr uint64_t kPatienceSteps = 3000;

struct Profile {
  std::string scheduler;
  std::string scheduler_options;
  std::string kv_cache;
  uint32_t block_tokens;
  uint32_t kv_tokens;
  uint32_t swap_tokens;
  uint32_t drafts;
};

std::string name_of(const Profile& profile) {
  return profile.scheduler + "_" + profile.kv_cache +
         (profile.kv_tokens > 1000 ? "_roomy" : "_few") + (profile.swap_tokens > 0 ? "_swap" : "") +
         "_drafts" + std::to_string(profile.drafts);
}

// Each scheduler with each manager, with plenty of memory, with little, and with little and a pool
// to swap to; drafts in turn.
std::vector<Profile> profiles() {
  std::vector<Profile> all;
  const uint32_t drafts[] = {0, 1, 5};
  size_t number = 0;
  for (const char* kv_cache : {"naive", "paged", "prefix", "radix"}) {
    const bool naive = std::string_view(kv_cache) == "naive";
    const uint32_t few = naive ? 4 * kContext : 260, pool = 160;
    for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
      ++number;  // or drafts would go with the amount of memory
      all.push_back({scheduler, "", kv_cache, 4, 2400, 0, drafts[number++ % 3]});
      all.push_back({scheduler, "", kv_cache, 4, few, 0, drafts[number++ % 3]});
      // Whole regions are never short in the middle of an answer.
      if (naive) continue;
      all.push_back({scheduler, "preempt=swap", kv_cache, 4, few, pool, drafts[number++ % 3]});
    }
  }
  return all;
}

// What arrives: prompts of one of a few beginnings and a tail of their own.
class Arrivals {
 public:
  Arrivals(TestRandom& random, uint32_t vocabulary) : random_(random), vocabulary_(vocabulary) {
    for (uint32_t length : {9u, 32u, 57u}) beginnings_.push_back(random.tokens(length, vocabulary));
  }

  Request next() {
    Request request;
    if (random_.below(2) == 0) request.prompt = beginnings_[random_.below(3)];
    const std::vector<TokenId> tail = random_.tokens(1 + random_.below(24), vocabulary_);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.max_tokens = 1 + random_.below(35);
    request.samples = random_.below(6) == 0 ? 2 + random_.below(2) : 1;
    request.sampling.temperature = random_.below(2) == 0 ? 0.0f : 0.8f;
    request.sampling.seed = random_.below(1000);
    request.ignore_eos = random_.below(8) == 0;
    request.cache_salt = random_.below(4) == 0 ? 7 : 0;
    request.tenant = random_.below(3);
    return request;
  }

 private:
  TestRandom& random_;
  uint32_t vocabulary_;
  std::vector<std::vector<TokenId>> beginnings_;
};

class LongTraffic : public testing::TestWithParam<Profile> {
 protected:
  LongTraffic() : random_(20), arrivals_(random_, RigOptions{}.vocabulary) {}

  RigOptions options_of(const Profile& profile) {
    RigOptions options;
    options.scheduler = profile.scheduler;
    options.scheduler_options = profile.scheduler_options;
    options.kv_cache = profile.kv_cache;
    // Nearly every block collides with others: only its tokens tell it apart.
    if (profile.kv_cache == "prefix" && profile.kv_tokens < 1000) {
      options.kv_cache_options = "hash_bits=2";
    }
    options.block_tokens = profile.block_tokens;
    options.kv_tokens = profile.kv_tokens;
    options.swap_tokens =
        profile.kv_cache == "naive" ? kContext * (profile.swap_tokens > 0) : profile.swap_tokens;
    options.max_sequences = 10;
    options.max_batch_tokens = 96;
    options.context_tokens = kContext;
    options.eos_tokens = {2, 3};
    options.engine.on_step = [this](const StepRecord& step) { check_record(step); };
    return options;
  }

  void check_record(const StepRecord& step) {
    EXPECT_LE(step.rows, 96u);
    EXPECT_LE(step.running, 10u);
    EXPECT_LE(step.accepted_drafts, step.draft_rows);
    EXPECT_LE(step.kv_used_tokens, step.kv_reserved_tokens);
  }

  // Those that are cancelled, or were answered already, no longer count.
  void expect_progress(Rig& rig) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const auto& samples = rig.sink(at->first)->samples();
      size_t tokens = 0;
      bool ended = samples.size() == requests_[at->first - 1].samples;
      for (const auto& sample : samples) {
        tokens += sample.tokens.size();
        ended &= sample.ended;
      }
      if (ended) {
        at = waiting_.erase(at);
        continue;
      }
      if (tokens != at->second.tokens) at->second = {tokens, steps_};
      ASSERT_LT(steps_ - at->second.since, kPatienceSteps) << "request " << at->first << " starves";
      ++at;
    }
  }

  void traffic(Rig& rig) {
    for (steps_ = 0; steps_ < kSteps; ++steps_) {
      if (waiting_.size() < 24 && random_.below(3) == 0) {
        requests_.push_back(arrivals_.next());
        waiting_[rig.submit(requests_.back())] = {0, steps_};
      }
      if (random_.below(40) == 0 && !waiting_.empty()) {
        cancelled_.insert(waiting_.rbegin()->first);
        rig.engine().cancel(waiting_.rbegin()->first);
      }
      const Status status = rig.engine().step();
      ASSERT_TRUE(status.ok()) << status.message();
      if (steps_ % 50 == 0) expect_progress(rig);
      if (HasFailure()) return;
    }
  }

  void expect_oracle(Rig& rig, const RigOptions& options) {
    size_t complete = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      for (uint32_t sample = 0; sample < requests_[i].samples; ++sample) {
        const ResultSink::Sample& result = rig.result(i + 1, sample);
        ASSERT_TRUE(result.ended) << "request " << i + 1;
        if (result.reason == FinishReason::cancelled) {
          EXPECT_TRUE(cancelled_.contains(i + 1));
          continue;
        }
        const Expected expected =
            oracle({options.vocabulary, 0}, requests_[i], sample, kContext, options.eos_tokens);
        ASSERT_EQ(result.ids(), expected.ids) << "request " << i + 1 << " sample " << sample;
        ASSERT_EQ(result.record.logits_digest, expected.digest);
        ++complete;
      }
    }
    EXPECT_GT(complete, 1000u);
  }

  struct Progress {
    size_t tokens;
    uint64_t since;
  };
  TestRandom random_;
  Arrivals arrivals_;
  std::vector<Request> requests_;
  std::map<RequestId, Progress> waiting_;
  std::set<RequestId> cancelled_;
  uint64_t steps_ = 0;
};

TEST_P(LongTraffic, everybody_gets_on_and_gets_the_oracles_tokens) {
  const Profile& profile = GetParam();
  RigOptions options = options_of(profile);
  ToyDrafter drafter({options.vocabulary, 0}, profile.drafts, 4);
  if (profile.drafts > 0) options.drafter = &drafter;
  Rig rig(options);
  traffic(rig);
  if (HasFailure()) return;
  rig.run(20000);
  const EngineTotals& totals = rig.engine().totals();
  EXPECT_EQ(totals.plan_faults, 0u) << rig.engine().last_fault();
  EXPECT_EQ(totals.forward_faults, 0u) << rig.engine().last_fault();
  EXPECT_EQ(drafter.live(), 0);
  const bool short_of_memory = profile.kv_tokens < 1000 && profile.kv_cache != "naive";
  EXPECT_GE(totals.drafts.accepted, profile.drafts > 0 ? 1000u : 0u);
  EXPECT_GE(totals.preemptions, short_of_memory ? 100u : 0u);
  EXPECT_GE(totals.swapped_out_tokens, profile.swap_tokens > 0 ? 100u : 0u);
  const bool reuses = profile.kv_cache == "prefix" || profile.kv_cache == "radix";
  EXPECT_GE(totals.reused_tokens, reuses ? 1000u : 0u);
  expect_oracle(rig, options);
}

INSTANTIATE_TEST_SUITE_P(Profiles, LongTraffic, testing::ValuesIn(profiles()),
                         [](const auto& made) { return name_of(made.param); });

}  // namespace
}  // namespace tenon
