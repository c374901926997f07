// Whatever the KV manager, tokens and the bits they were drawn from are the oracle's: with prompts
// that begin alike, forks, drafts, preemption by recomputing and by swapping, and plans that fail.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

// Preempts by swapping where the manager allows it, whatever the scheduler asked for.
class SwapLedger final : public KvLedger {
 public:
  explicit SwapLedger(KvLedger& ledger) : ledger_(ledger) {}
  CachedTokens cached(SeqId seq) noexcept override { return ledger_.cached(seq); }
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override { return ledger_.cost(seq, tokens); }
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override {
    return ledger_.try_grow(seq, at_least, at_most);
  }
  HeldTokens held(SeqId seq) noexcept override { return ledger_.held(seq); }
  bool release(SeqId seq, ReleaseHow how) noexcept override {
    return ledger_.release(seq, ReleaseHow::swap) || ledger_.release(seq, how);
  }
  uint64_t free_tokens() noexcept override { return ledger_.free_tokens(); }

 private:
  KvLedger& ledger_;
};

// Another scheduler, whose preemptions swap and some of whose plans come to nothing.
class RoughScheduler final : public Scheduler {
 public:
  RoughScheduler(Scheduler& scheduler, bool swaps, uint32_t fails_every)
      : scheduler_(scheduler), swaps_(swaps), fails_every_(fails_every) {}
  Status on_event(const SequenceEvent& event) noexcept override {
    return scheduler_.on_event(event);
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    SwapLedger swapping(ledger);
    KvLedger& seen = swaps_ ? static_cast<KvLedger&>(swapping) : ledger;
    Status status = scheduler_.plan(view, seen, out);
    ++plans_;
    if (!status.ok() || fails_every_ == 0 || plans_ % fails_every_ != 0) return status;
    return Status::error(StatusCode::failed, "this plan was not meant to be");
  }

 private:
  Scheduler& scheduler_;
  bool swaps_;
  uint32_t fails_every_;
  uint64_t plans_ = 0;
};

struct Manager {
  const char* id;
  const char* options;
  uint32_t block_tokens;
  bool caches;
};
std::ostream& operator<<(std::ostream& out, const Manager& manager) {
  return out << manager.id << " " << manager.options << " " << manager.block_tokens;
}
constexpr Manager kManagers[] = {
    {"naive", "", 0, false},
    {"paged", "", 16, false},
    {"paged", "", 1, false},
    {"prefix", "", 16, true},
    {"prefix", "", 1, true},
    {"prefix", "eviction=lfu", 8, true},
    {"prefix", "eviction=fifo hash_bits=2", 8, true},
    {"radix", "", 16, true},
    {"radix", "", 4, true},
    {"radix", "", 64, true},
};

// Beginnings are shared in whole blocks and in parts of them; some prompts are the same.
std::vector<Request> requests_alike(const RigOptions& options) {
  TestRandom random(5);
  const std::vector<TokenId> stems[] = {random.tokens(70, options.vocabulary),
                                        random.tokens(37, options.vocabulary)};
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 14; ++i) {
    Request request;
    const auto& stem = stems[i % 2];
    request.prompt.assign(stem.begin(), stem.end() - (i % 4 == 3 ? 9 : 0));
    const auto tail = random.tokens(i % 5 == 0 ? 0 : random.below(20), options.vocabulary);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.max_tokens = 2 + random.below(40);
    request.samples = i % 3 == 1 ? 1 + random.below(3) : 1;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = 70 + i;
    request.cache_salt = i % 7 == 6 ? 1 : 0;
    requests.push_back(request);
  }
  return requests;
}

class KvManagers : public testing::TestWithParam<Manager> {
 protected:
  RigOptions options() const {
    RigOptions options;
    options.kv_cache = GetParam().id;
    options.kv_cache_options = GetParam().options;
    options.block_tokens = GetParam().block_tokens;
    return options;
  }
  // Requests arrive one by one, so that later ones find what earlier ones left.
  static EngineTotals expect_oracle(RigOptions options, bool swaps = false,
                                    uint32_t fails_every = 0) {
    LoadedPlugin<Scheduler> inner("scheduler", options.scheduler, options.scheduler_options);
    RoughScheduler rough(*inner, swaps, fails_every);
    options.own_scheduler = &rough;
    Rig rig(options);
    const std::vector<Request> requests = requests_alike(options);
    for (const Request& request : requests) {
      rig.submit(request);
      EXPECT_TRUE(rig.engine().step().ok());
      EXPECT_TRUE(rig.engine().step().ok());
    }
    rig.run();
    const ToyModel model{options.vocabulary, options.window_tokens};
    for (size_t i = 0; i < requests.size(); ++i) {
      for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
        const ResultSink::Sample& result = rig.result(i + 1, sample);
        const Expected expected = oracle(model, requests[i], sample, options.context_tokens);
        EXPECT_EQ(result.message, "");
        EXPECT_EQ(result.ids(), expected.ids) << "request " << i << " sample " << sample;
        EXPECT_EQ(result.record.logits_digest, expected.digest);
      }
    }
    if (fails_every == 0) {
      EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
    } else {
      EXPECT_GT(rig.engine().totals().plan_faults, 5u);
    }
    return rig.engine().totals();
  }
  RigOptions scarce() const {
    RigOptions scarce = options();
    scarce.context_tokens = 160;
    scarce.kv_tokens = 320;
    return scarce;
  }
};

TEST_P(KvManagers, give_the_same_tokens) {
  const EngineTotals totals = expect_oracle(options());
  EXPECT_EQ(totals.reused_tokens > 0, GetParam().caches);
}

TEST_P(KvManagers, give_the_same_tokens_in_chunks) {
  RigOptions chunks = options();
  chunks.scheduler_options = "chunk_tokens=7";
  expect_oracle(chunks);
}

TEST_P(KvManagers, give_the_same_tokens_when_memory_is_short) {
  expect_oracle(scarce());
}

TEST_P(KvManagers, give_the_same_tokens_with_a_window) {
  RigOptions sliding = scarce();
  sliding.window_tokens = 24;
  expect_oracle(sliding);
}

TEST_P(KvManagers, give_the_same_tokens_with_drafts) {
  RigOptions drafting = scarce();
  ToyDrafter drafter({drafting.vocabulary}, 6, 4);
  drafting.drafter = &drafter;
  drafting.max_batch_tokens = 40;
  expect_oracle(drafting);
}

TEST_P(KvManagers, give_the_same_tokens_when_preempted_ones_are_swapped) {
  RigOptions swapping = scarce();
  swapping.swap_tokens = 480;
  const EngineTotals totals = expect_oracle(swapping, true);
  if (GetParam().id != std::string("naive")) {
    EXPECT_GT(totals.swapped_out_tokens, 0u);
    EXPECT_EQ(totals.swapped_in_tokens > 0, true);
    EXPECT_LE(totals.swapped_in_tokens, totals.swapped_out_tokens);
  }
}

TEST_P(KvManagers, give_the_same_tokens_when_the_pool_is_small_and_plans_fail) {
  RigOptions swapping = scarce();
  swapping.swap_tokens = 160;
  ToyDrafter drafter({swapping.vocabulary}, 3, 4);
  swapping.drafter = &drafter;
  expect_oracle(swapping, true, 3);
}

// The copy of the one that was swapped out cannot be trusted, so it is computed again; what ran may
// have needed a move and fails.
TEST(KvMoves, that_fail_never_lead_to_wrong_tokens) {
  RigOptions options;
  options.scheduler_options = "watermark=0 preempt=swap";
  options.block_tokens = 4;
  options.kv_tokens = 24;
  options.swap_tokens = 24;
  Rig rig(options);
  std::vector<Request> requests;
  for (TokenId token : {1, 2, 3}) {
    requests.push_back(greedy_request(std::vector<TokenId>(7, token), 6));
    rig.submit(requests.back());
  }
  rig.device().faults.apply_fails = true;
  rig.run();
  EXPECT_FALSE(rig.device().faults.apply_fails);
  EXPECT_GT(rig.engine().totals().swapped_out_tokens, 0u);
  EXPECT_EQ(rig.engine().totals().swapped_in_tokens, 0u);
  for (RequestId failed : {1, 2}) {
    EXPECT_EQ(rig.result(failed).message, "copying K/V blocks failed: injected: apply");
  }
  EXPECT_EQ(rig.result(3).ids(), oracle({options.vocabulary, 0}, requests[2], 0, 256).ids);
}

INSTANTIATE_TEST_SUITE_P(All, KvManagers, testing::ValuesIn(kManagers));

}  // namespace
}  // namespace tenon
