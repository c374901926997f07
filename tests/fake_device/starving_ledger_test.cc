// Every scheduler over a ledger that refuses often, at random: nothing is lost, nothing stands
// still, and who came first gets on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

struct Starving {
  const char* name;
  const char* scheduler;
  const char* options;
  bool first_come_first_served;  // by seniority: the eldest must get on
};
constexpr Starving kStarving[] = {
    {"static", "static", "", true},
    {"static_shortest", "static", "policy=shortest_first", false},
    {"continuous", "continuous", "", true},
    {"continuous_chunks", "continuous", "chunk_tokens=6 watermark=0", true},
    {"continuous_held", "continuous", "waiting_served_ratio=3", true},
    {"continuous_least_cost", "continuous", "victim=least_cost preempt=swap", true},
    {"continuous_priority", "continuous", "policy=priority watermark=0", false},
    {"continuous_shortest", "continuous", "policy=shortest_first", false},
    {"chunked", "chunked", "", true},
    {"chunked_small", "chunked", "step_tokens=8 watermark=0", true},
    {"chunked_partial", "chunked", "step_tokens=24 long_prompt_threshold=5 max_partial_prompts=2",
     true},
    {"chunked_priority", "chunked", "step_tokens=16 policy=priority victim=least_cost", false},
    {"fair", "fair", "", false},
    {"fair_small", "fair", "step_tokens=8 watermark=0 victim=least_cost", false},
};

constexpr uint64_t kPatience = 60;  // plans in which the eldest may stand still; 26 was the worst

// Who has waited longest since it last got a token further than ever before.
class Progress {
 public:
  void plan_made(const SchedulerView& view) {
    ++plans_;
    for (const auto& list : {view.waiting, view.running}) {
      for (const SequenceView& sequence : list) {
        Entry& entry = entries_[sequence.seq];
        const bool further = entry.known < sequence.known_tokens;
        if (!further) continue;
        entry = {sequence.known_tokens, plans_};
      }
    }
    const SequenceView* eldest = nullptr;
    for (const auto& list : {view.waiting, view.running}) {
      for (const SequenceView& sequence : list) {
        if (eldest == nullptr || sequence.seq < eldest->seq) eldest = &sequence;
      }
    }
    if (eldest == nullptr) return;
    if (eldest->seq != eldest_) since_ = plans_;
    eldest_ = eldest->seq;
    const uint64_t start = std::max(since_, entries_[eldest_].plan);
    worst = std::max(worst, plans_ - start);
  }
  uint64_t worst = 0;

 private:
  struct Entry {
    uint32_t known = 0;
    uint64_t plan = 0;
  };
  std::map<SeqId, Entry> entries_;
  SeqId eldest_ = kNoSeq;
  uint64_t since_ = 0;
  uint64_t plans_ = 0;
};

class StarvingLedger : public testing::TestWithParam<std::tuple<Starving, const char*, uint64_t>> {
};

TEST_P(StarvingLedger, loses_nobody_and_nothing) {
  const auto& [strategy, kv, seed] = GetParam();
  LoadedPlugin<Scheduler> plugin("scheduler", strategy.scheduler, strategy.options);
  ASSERT_EQ(plugin.error(), "");
  MaskedScheduler scheduler(*plugin);
  TestRandom luck(seed * 77);
  scheduler.mask.refuses_growth = [&](SeqId) { return luck.below(3) == 0; };
  scheduler.mask.refuses_release = [&](SeqId, ReleaseHow) { return luck.below(4) == 0; };
  scheduler.mask.free_instead = [&](uint64_t free) { return free * luck.below(5) / 4; };
  Progress progress;
  scheduler.after = [&](const SchedulerView& view, const PlanOut&) { progress.plan_made(view); };

  RigOptions options;
  options.own_scheduler = &scheduler;
  options.kv_cache = kv;
  options.block_tokens = 4;
  options.context_tokens = 80;
  options.kv_tokens = 3 * 80;
  options.swap_tokens = 80;
  options.max_sequences = 6;
  options.max_batch_tokens = 100;
  ToyDrafter drafter({options.vocabulary, 0}, 3, 4);
  if (seed % 2 == 0) options.drafter = &drafter;
  Rig rig(options);
  TestRandom random(seed);
  const std::vector<TokenId> stem = random.tokens(21, options.vocabulary);
  std::vector<Request> requests;
  for (int step = 0; step < 500; ++step) {
    if (random.below(6) == 0 && requests.size() < 60) {
      Request request = greedy_request(random.tokens(1 + random.below(50), options.vocabulary),
                                       1 + random.below(25));
      if (random.below(2) == 0) {
        request.prompt.insert(request.prompt.begin(), stem.begin(), stem.end());
      }
      request.max_tokens = std::min<uint32_t>(request.max_tokens, 80 - request.prompt.size());
      request.samples = random.below(8) == 0 ? 2 : 1;
      request.priority = static_cast<int32_t>(random.below(3));
      request.tenant = random.below(2);
      requests.push_back(request);
      rig.submit(request);
    }
    ASSERT_TRUE(rig.engine().step().ok());
  }
  rig.run(20000);
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  EXPECT_GT(rig.engine().totals().preemptions, 0u);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const ResultSink::Sample& result = rig.result(i + 1, sample);
      ASSERT_TRUE(result.ended) << "request " << i;
      EXPECT_EQ(result.ids(), oracle({options.vocabulary, 0}, requests[i], sample, 80).ids);
    }
  }
  RecordProperty("worst_plans", std::to_string(progress.worst));
  if (strategy.first_come_first_served) {
    EXPECT_LT(progress.worst, kPatience);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StarvingLedger,
                         testing::Combine(testing::ValuesIn(kStarving),
                                          testing::Values("paged", "naive", "prefix", "radix"),
                                          testing::Values(1, 2, 3)),
                         [](const auto& made) {
                           return std::string(std::get<0>(made.param).name) + "_" +
                                  std::get<1>(made.param) + "_" +
                                  std::to_string(std::get<2>(made.param));
                         });

}  // namespace
}  // namespace tenon
