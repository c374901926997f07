// The executor "sim": simulations are the same whatever the host does meanwhile, clusters, and what
// cannot be simulated.
#include <atomic>
#include <thread>

#include "core/compare/cluster/cluster.h"
#include "tests/pipeline/simulation_fixture.h"

namespace tenon::compare {
namespace {

using testing::HasSubstr;

TEST_F(SimulationTest, a_decision_that_differs_is_shown) {
  const std::string path = random_work(5), views = folder_.path() + "/views.jsonl";
  {
    const auto first = opened(tight("continuous", "paged"), true);
    ASSERT_NE(first, nullptr);
    ASSERT_TRUE(replay(*first, work_of(*first, path, 5), {.salt = 1, .record = views}).ok());
  }
  const auto other = opened(tight("static", "paged"), true);
  ASSERT_NE(other, nullptr);
  const auto found = follow_run(*other, work_of(*other, path, 5), views);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE(found->differ);
  ASSERT_GE(found->lines.size(), 2u);
  EXPECT_THAT(found->lines[0], HasSubstr("of the record:"));
}

TEST_F(SimulationTest, the_same_simulation_is_the_same_on_a_busy_machine) {
  const MeasuredPiece alone = simulated_piece(tight("chunked", "prefix"), 7);
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  const MeasuredPiece busy = simulated_piece(tight("chunked", "prefix"), 7);
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(piece_json(alone).dump(), piece_json(busy).dump());
  ASSERT_EQ(alone.requests.size(), busy.requests.size());
  for (size_t i = 0; i < alone.requests.size(); ++i) {
    EXPECT_EQ(row_json(alone.requests[i]).dump(), row_json(busy.requests[i]).dump());
  }
  EXPECT_GT(alone.seconds, 0);
}

TEST_F(SimulationTest, answers_do_not_depend_on_the_strategy) {
  const MeasuredPiece one = simulated_piece(tight("static", "naive"), 8);
  const MeasuredPiece other = simulated_piece(tight("chunked", "radix"), 8);
  ASSERT_EQ(one.requests.size(), other.requests.size());
  for (size_t i = 0; i < one.requests.size(); ++i) {
    EXPECT_EQ(one.requests[i].answer, other.requests[i].answer) << i;
  }
  EXPECT_NE(one.seconds, other.seconds);
}

TEST_F(SimulationTest, a_large_model_needs_no_weights) {
  const MeasuredPiece piece = simulated_piece(
      {"scheduler.plugin=continuous", "kv_cache.plugin=paged", "limits.context_tokens=64"}, 1,
      "/nowhere/smollm-360m");
  EXPECT_EQ(piece.requests.size(), 9u);
}

TEST_F(SimulationTest, drafts_are_kept_as_often_as_somebody_says) {
  std::vector<std::string> settings = tight("continuous", "paged");
  settings.push_back("drafter.plugin=ngram");
  acceptance_ = 1.0;
  const MeasuredPiece all = simulated_piece(settings, 4);
  acceptance_ = 0.0;
  const MeasuredPiece none = simulated_piece(settings, 4);
  EXPECT_EQ(all.counters.at("accepted_tokens"), all.counters.at("drafted_tokens"));
  EXPECT_EQ(none.counters.at("accepted_tokens"), 0);
}

// A cluster of three machines with one clock each.
class ClusterTest : public SimulationTest {
 protected:
  Result<MeasuredPiece> found(const ClusterPlan& plan, uint64_t seed, bool room = false) {
    std::vector<std::unique_ptr<Pipeline>> pipelines;
    std::vector<std::unique_ptr<VirtualClock>> clocks;
    std::vector<Pipeline*> machines;
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> settings = tight("continuous", "prefix");
      if (room) settings.push_back("kv_cache.memory=16MiB");
      if (room) settings.push_back("limits.max_batch_tokens=68");
      pipelines.push_back(opened(settings, true));
      if (pipelines.back() == nullptr) return failed("no pipeline");
      clocks.push_back(std::move(clock_));
      machines.push_back(pipelines.back().get());
    }
    const ReplayWork work = work_of(*machines[0], random_work(seed), seed);
    return replay_cluster(machines, plan, work, {.salt = 1});
  }
  MeasuredPiece piece(const ClusterPlan& plan, uint64_t seed, bool room = false) {
    const auto made = found(plan, seed, room);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *made : MeasuredPiece();
  }
  MeasuredPiece one_machine(uint64_t seed) {
    return simulated_piece(tight("continuous", "prefix"), seed);
  }
  static void expect_answers(const MeasuredPiece& all, const MeasuredPiece& one) {
    ASSERT_EQ(all.requests.size(), one.requests.size());
    for (size_t i = 0; i < one.requests.size(); ++i) {
      EXPECT_EQ(all.requests[i].index, i);
      EXPECT_EQ(all.requests[i].answer, one.requests[i].answer) << i;
      EXPECT_EQ(all.requests[i].tokens, one.requests[i].tokens) << i;
      EXPECT_EQ(all.requests[i].prompt_tokens, one.requests[i].prompt_tokens) << i;
      EXPECT_GT(all.requests[i].ttft_ms, 0);
    }
  }
};

TEST_F(ClusterTest, every_request_is_answered_once_as_one_machine_does) {
  for (const uint64_t seed : {3, 8}) {  // a closed loop, and arrivals
    const MeasuredPiece one = one_machine(seed);
    for (const Routing routing :
         {Routing::round_robin, Routing::least_load, Routing::prefix, Routing::session}) {
      SCOPED_TRACE(routing_name(routing));
      const MeasuredPiece all = piece({.routing = routing}, seed);
      expect_answers(all, one);
      EXPECT_LE(all.seconds, one.seconds * 1.001);
      EXPECT_EQ(all.machines.size(), 3u);
      EXPECT_EQ(piece_json(all).dump(), piece_json(piece({.routing = routing}, seed)).dump());
    }
  }
}

TEST_F(ClusterTest, a_machine_that_fails_delays_its_requests_and_changes_no_answer) {
  for (const uint64_t seed : {3, 8}) {
    const MeasuredPiece one = one_machine(seed), whole = piece({}, seed);
    const auto at_ns = static_cast<int64_t>(whole.seconds * 0.3e9);
    const ClusterPlan plan{.failures = {{1, at_ns, 50'000'000'000}, {2, at_ns, 20'000'000}}};
    const MeasuredPiece all = piece(plan, seed);
    expect_answers(all, one);
    EXPECT_GT(all.seconds, whole.seconds);
    double latency = 0, usual = 0;
    for (size_t i = 0; i < all.requests.size(); ++i) {
      latency += all.requests[i].latency_ms;
      usual += whole.requests[i].latency_ms;
    }
    EXPECT_GT(latency, usual);
    EXPECT_EQ(piece_json(all).dump(), piece_json(piece(plan, seed)).dump());
  }
}

TEST_F(ClusterTest, where_all_machines_are_down_requests_wait_until_one_returns) {
  const int64_t down_ns = 3'000'000'000;
  const MeasuredPiece all =
      piece({.failures = {{1, 0, down_ns}, {2, 0, 2 * down_ns}, {3, 0, 2 * down_ns}}}, 8);
  expect_answers(all, one_machine(8));
  for (const RequestRow& row : all.requests) {
    EXPECT_GE(row.arrival_ms + row.ttft_ms, static_cast<double>(down_ns) * 1e-6);
  }
}

TEST_F(ClusterTest, prompts_and_answers_on_machines_of_their_own_give_the_same_answers) {
  for (const uint64_t seed : {3, 8}) {
    const MeasuredPiece one = one_machine(seed);
    const MeasuredPiece all = piece({.prefill = 1}, seed, true);
    expect_answers(all, one);
    EXPECT_EQ(piece_json(all).dump(), piece_json(piece({.prefill = 1}, seed, true)).dump());
  }
}

TEST_F(ClusterTest, a_slower_network_makes_the_second_token_later_and_not_the_first) {
  const MeasuredPiece quick = piece({.prefill = 1}, 8, true);
  network_ = 1e6;
  const MeasuredPiece slow = piece({.prefill = 1}, 8, true);
  double gaps = 0, before = 0;
  for (size_t i = 0; i < quick.requests.size(); ++i) {
    gaps += slow.requests[i].longest_gap_ms;
    before += quick.requests[i].longest_gap_ms;
    EXPECT_NEAR(slow.requests[i].ttft_ms, quick.requests[i].ttft_ms, 1e-6);
  }
  EXPECT_GT(gaps, 2 * before);
}

TEST_F(ClusterTest, a_failed_machine_with_a_role_is_stood_in_for) {
  const MeasuredPiece one = one_machine(8);
  expect_answers(piece({.prefill = 1, .failures = {{2, 10'000'000, 5'000'000'000}}}, 8, true), one);
  expect_answers(piece({.prefill = 1, .failures = {{1, 10'000'000, 100'000'000}}}, 8, true), one);
}

TEST_F(ClusterTest, a_cluster_that_makes_no_sense_is_a_sentence) {
  const auto fault = [&](const ClusterPlan& plan) {
    const auto made = found(plan, 8);
    return made.ok() ? std::string("none") : std::string(made.status().message());
  };
  EXPECT_THAT(fault({.prefill = 3}), HasSubstr("one at least must be left"));
  EXPECT_THAT(fault({.failures = {{4, 0, 1}}}), HasSubstr("machine 4 is to fail, and there are 3"));
  network_ = 0;
  EXPECT_THAT(fault({.prefill = 1}), HasSubstr("has no network"));
}

TEST_F(SimulationTest, what_needs_another_model_is_refused_by_name) {
  const auto second = open({"drafter.plugin=draft_model",
                            "drafter.model=" + source_folder() + "/configs/models/tale-draft"},
                           true);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("executor 'sim' cannot run a second model"));
}

}  // namespace
}  // namespace tenon::compare
