// Beam groups in memory that holds few of them: each is admitted, grown, preempted and resumed as
// one, and whatever a scheduler does with them ends.
#include <gtest/gtest.h>

#include <string>

#include "tests/fake_device/rig/beam_reference.h"
#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr const char* kSchedulers[] = {"static", "continuous", "chunked", "fair"};

class ScarceBeams
    : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
 protected:
  RigOptions options() const {
    const auto& [scheduler, kv_cache, _] = GetParam();
    RigOptions options;
    options.scheduler = scheduler;
    options.kv_cache = kv_cache;
    options.scheduler_options = std::get<2>(GetParam());
    options.vocabulary = 16;
    return options;
  }
  static void expect_answers(Rig& rig, const RigOptions& options,
                             const std::vector<Request>& requests) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      if (request.beams == 0) {
        EXPECT_EQ(rig.result(i + 1).ids(),
                  oracle(options.model(), request, 0, options.context_tokens).ids);
        continue;
      }
      const auto expected = beam_reference(options.model(), request, {});
      for (uint32_t answer = 0; answer < request.samples; ++answer) {
        EXPECT_EQ(rig.result(i + 1, answer).message, "");
        EXPECT_EQ(rig.result(i + 1, answer).ids(), expected[answer].tokens);
      }
    }
    EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  }
};

TEST_P(ScarceBeams, of_three_end_beside_two_plain_requests) {
  RigOptions options = this->options();
  const bool naive = options.kv_cache == "naive";
  options.block_tokens = 64;
  options.context_tokens = 128;
  options.kv_tokens = 8 * 64;
  TestRandom random(5);
  std::vector<Request> requests = {
      greedy_request(random.tokens(60, options.vocabulary), 60),
      beam_request(random.tokens(50, options.vocabulary), 3, naive ? 40 : 70),
      greedy_request(random.tokens(60, options.vocabulary), 60)};
  Rig rig(options);
  for (const Request& request : requests) rig.submit(request);
  rig.run(3000);
  expect_answers(rig, options, requests);
}

TEST_P(ScarceBeams, of_many_requests_end_where_one_group_fills_the_memory) {
  RigOptions options = this->options();
  const bool naive = options.kv_cache == "naive";
  options.block_tokens = 4;
  options.context_tokens = 64;
  options.max_sequences = 9;
  TestRandom random(6);
  std::vector<Request> requests;
  for (uint32_t prompt : {25u, 5u, 4u, 15u, 3u, 30u}) {
    requests.push_back(beam_request(random.tokens(prompt, options.vocabulary), 4, 21));
    requests.push_back(greedy_request(random.tokens(prompt, options.vocabulary), 20));
  }
  // 30 tokens of prompt: 7 blocks that all share, and for each beam those up to token 50.
  options.kv_tokens = naive ? 4 * options.context_tokens : (7 + 4 * (13 - 7)) * 4;
  Rig rig(options);
  for (const Request& request : requests) rig.submit(request);
  rig.run(20000);
  expect_answers(rig, options, requests);
}

INSTANTIATE_TEST_SUITE_P(All, ScarceBeams,
                         testing::Combine(testing::ValuesIn(kSchedulers),
                                          testing::Values("paged", "naive", "prefix", "radix"),
                                          testing::Values("", "preempt=swap victim=least_cost",
                                                          "max_batch_tokens=3 max_sequences=2")),
                         [](const auto& made) {
                           const std::string_view how = std::get<2>(made.param);
                           const char* named = how.empty()     ? ""
                                               : how[0] == 'p' ? "_swap"
                                                               : "_narrow";
                           return std::string(std::get<0>(made.param)) + "_" +
                                  std::get<1>(made.param) + named;
                         });

TEST(BeamGroup, needs_no_more_memory_than_was_checked) {
  RigOptions options;
  options.block_tokens = 8;
  // Two whole blocks of the prompt, and two for each beam up to token 29, the last that is
  // computed.
  options.kv_tokens = (2 + 3 * 2) * 8;
  Rig rig(options);
  const Request request = beam_request(std::vector<TokenId>(20, 3), 3, 10);
  rig.submit(request);
  rig.run(200);
  EXPECT_EQ(rig.result(1).ids(), beam_reference(options.model(), request, {})[0].tokens);
  EXPECT_EQ(rig.engine().totals().preemptions, 0u);
  const Result<RequestId> more =
      rig.engine().submit(beam_request(std::vector<TokenId>(20, 3), 3, 14));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().message(),
            "3 beams may need 88 tokens of K/V – the cache has room for 64 – ask for fewer beams, "
            "lower max_tokens or raise kv_cache.memory");
}

// What schedulers see of a group.
TEST(BeamGroup, shows_no_scheduler_a_beam_that_waits_for_its_siblings) {
  LoadedPlugin<Scheduler> plugin("scheduler", "chunked", "max_batch_tokens=2");
  MaskedScheduler scheduler(*plugin);
  std::vector<uint32_t> seen, rows;
  scheduler.before = [&](const SchedulerView& view) {
    seen.push_back(static_cast<uint32_t>(view.running.size()));
    rows.push_back(0);
    for (const SequenceView& sequence : view.running) {
      rows.back() += sequence.samples;
      EXPECT_LT(sequence.computed_tokens, sequence.known_tokens);
    }
  };
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.plan_ahead = false;
  Rig rig(options);
  const Request request = beam_request({1, 2}, 3, 4);
  rig.submit(request);
  rig.run(50);
  EXPECT_EQ(rig.result(1).ids(), beam_reference(options.model(), request, {})[0].tokens);
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 3, 1, 3, 1, 3, 1}));
  EXPECT_EQ(rows, (std::vector<uint32_t>{0, 3, 3, 3, 3, 3, 3})) << "but its row is counted";
}

TEST(BeamGroup, is_released_as_one_and_comes_back_as_one) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  MaskedScheduler scheduler(*plugin);
  int plans = 0;
  std::vector<SequenceView> seen;
  scheduler.before = [&](const SchedulerView& view) {
    if (++plans == 6) {
      ASSERT_EQ(view.running.size(), 3u);
      EXPECT_FALSE(scheduler.mask.release(view.running[2].seq, ReleaseHow::swap));
      EXPECT_TRUE(scheduler.mask.release(view.running[2].seq, ReleaseHow::recompute));
      for (const SequenceView& beam : view.running) {
        EXPECT_EQ(scheduler.mask.held(beam.seq).tokens, 0u);
        if (beam.seq == 0) continue;
        EXPECT_EQ(scheduler.mask.try_grow(beam.seq, 1, 1).granted, 0u) << "not before the trunk";
      }
    }
    if (plans != 7) return;
    seen.assign(view.waiting.begin(), view.waiting.end());
    seen.insert(seen.end(), view.running.begin(), view.running.end());
  };
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.plan_ahead = false;
  options.swap_tokens = 1024;
  Rig rig(options);
  const Request request = beam_request({1, 2}, 3, 9);
  rig.submit(request);
  rig.run(100);
  ASSERT_EQ(seen.size(), 1u) << "its beams come as one";
  EXPECT_EQ(seen[0].samples, 3u);
  EXPECT_EQ(rig.result(1).ids(), beam_reference(options.model(), request, {})[0].tokens);
}

}  // namespace
}  // namespace tenon
