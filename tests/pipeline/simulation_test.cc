// The executor "sim": runs that really happened, followed decision by decision; and simulations,
// which are the same whatever the host does meanwhile.
//
//   TENON_TEST_WORLDS=50 tenon_pipeline_tests --gtest_filter='*FollowedTest*'    1,000 random
//   worlds TENON_TEST_WORLD=17 tenon_pipeline_tests --gtest_filter='*FollowedTest*'     one of each
//   pair
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "core/base/calls/call_trace.h"
#include "core/compare/cluster/cluster.h"
#include "core/compare/json.h"
#include "core/compare/recorded_run.h"
#include "core/exec/cpu/executor.h"
#include "core/model/synth/shape_model.h"
#include "core/sim/executor.h"
#include "tests/pipeline/pipeline_fixture.h"
#include "tests/support/temporary_folder.h"

namespace tenon::compare {
namespace {

using testing::HasSubstr;

sim::Machine machine(double network) {
  return {.name = "m",
          .title = "a machine",
          .memory_bytes = 8 * kGiB,
          .bandwidth = 1e10,
          .link_bandwidth = 1e9,
          .network_bandwidth = network,
          .products = {{"bf16", 1e11, {1, 64}, {0.8, 0.5}}},
          .attention_operations = 1e11,
          .step_ns = 20e3,
          .sequence_ns = 1e3};
}

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() {
    PluginSearch search;
    for (const char* name :
         {"plugins/libtenon-scheduler_static", "plugins/libtenon-scheduler_continuous",
          "plugins/libtenon-scheduler_chunked", "plugins/libtenon-scheduler_fair",
          "plugins/libtenon-kv_cache_naive", "plugins/libtenon-kv_cache_paged",
          "plugins/libtenon-kv_cache_prefix", "plugins/libtenon-kv_cache_radix",
          "plugins/libtenon-sampler_standard", "plugins/libtenon-drafter_ngram",
          "plugins/libtenon-drafter_suffix", "plugins/libtenon-drafter_draft_model",
          "plugins/libtenon-linear_dense", "plugins/libtenon-attention_cpu",
          "tests/pipeline/libtenon-least_slack"}) {
      search.files.push_back({build_folder() + "/" + name + ".so", {"test", 0, 0}});
    }
    auto opened = PluginRegistry::open(search);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  Result<std::unique_ptr<Pipeline>> open(std::vector<std::string> settings, bool simulated,
                                         const std::string& model = "") {
    settings.push_back("model.path=" +
                       (model.empty() ? source_folder() + "/configs/models/tale" : model));
    settings.push_back(std::string("executor.plugin=") + (simulated ? "sim" : "cpu"));
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", settings);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors["cpu"] = [](const HostFacts& host) {
      return make_cpu_executor({.threads = host.workers, .isa = host.cpu});
    };
    request.executors["sim"] = [this](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
      return sim::make_sim_executor({.clock = clock_.get(),
                                     .times = sim::times_of(machine(network_)),
                                     .acceptance = acceptance_});
    };
    request.host.cpu = {};
    request.host.workers = 1;
    request.available_memory_bytes = request.total_memory_bytes = 8 * kGiB;
    if (simulated) {
      clock_ = std::make_unique<VirtualClock>(1);
      request.virtual_clock = clock_.get();
      request.open = [](const std::string& path, std::string_view as) {
        return open_without_weights(path, as, "");
      };
    }
    return build_pipeline(std::move(request));
  }
  std::unique_ptr<Pipeline> opened(const std::vector<std::string>& settings, bool simulated,
                                   const std::string& model = "") {
    auto pipeline = open(settings, simulated, model);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }

  // Prompts that share beginnings, with answers, priorities and deadlines of all kinds.
  std::string random_work(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](uint64_t count) { return random() % count; };
    std::string text;
    for (int i = 0; i < 9; ++i) {
      std::string tokens;
      const uint64_t shared = below(3), length = 1 + below(44);
      for (uint64_t at = 0; at < length; ++at) {
        const uint64_t token = at < 24 ? 3 + shared * 100 + at : 3 + below(500);
        tokens += (at == 0 ? "" : ", ") + std::to_string(token);
      }
      text += "{\"prompt\": [" + tokens + "], \"max_tokens\": " + std::to_string(1 + below(10)) +
              ", \"ignore_eos\": " + (below(2) == 0 ? "true" : "false") + "}\n";
    }
    return folder_.write_file("work-" + std::to_string(seed) + ".jsonl", text);
  }

  ReplayWork work_of(const Pipeline& pipeline, const std::string& path, uint64_t seed) {
    auto work = read_replay_work(pipeline, path, 8);
    EXPECT_TRUE(work.ok()) << work.status().message();
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < work->requests.size(); ++i) {
      Request& request = work->requests[i];
      request.priority = static_cast<int32_t>(random() % 3);
      request.tenant = static_cast<uint32_t>(random() % 2);
      request.deadline_ns = static_cast<int64_t>(random() % 2 * 40'000'000);
      work->arrivals_ns[i] = static_cast<int64_t>(random() % 12) * 1'000'000;
    }
    if (seed % 3 == 0) work->in_flight = 4;
    return *std::move(work);
  }

  // Runs on the processor, then follows that run; what differs, if anything does.
  void follows(const std::vector<std::string>& settings, uint64_t seed,
               const std::string& model = "") {
    const std::string path = random_work(seed), views = folder_.path() + "/views.jsonl";
    {
      const auto real = opened(settings, false, model);
      ASSERT_NE(real, nullptr);
      const auto piece = replay(*real, work_of(*real, path, seed), {.salt = 1, .record = views});
      ASSERT_TRUE(piece.ok()) << piece.status().message();
    }
    const auto simulated = opened(settings, true, model);
    ASSERT_NE(simulated, nullptr);
    const auto found = follow_run(*simulated, work_of(*simulated, path, seed), views);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_FALSE(found->differ) << testing::PrintToString(found->lines);
    EXPECT_GT(found->plans, 5u);
  }

  MeasuredPiece simulated_piece(const std::vector<std::string>& settings, uint64_t seed,
                                const std::string& model = "") {
    const auto pipeline = opened(settings, true, model);
    if (pipeline == nullptr) return {};
    const auto piece = replay(*pipeline, work_of(*pipeline, random_work(seed), seed), {.salt = 1});
    EXPECT_TRUE(piece.ok()) << piece.status().message();
    return piece.ok() ? *piece : MeasuredPiece();
  }

  // Answers so long that most steps repeat the one before.
  MeasuredPiece long_piece(const std::vector<std::string>& settings, uint64_t seed) {
    const auto pipeline = opened(settings, true, source_folder() + "/configs/models/tale-draft");
    if (pipeline == nullptr) return {};
    ReplayWork work = work_of(*pipeline, random_work(seed), seed);
    std::mt19937_64 random(seed);
    for (Request& request : work.requests) {
      request.max_tokens = 1 + static_cast<uint32_t>(random() % 140);
      request.ignore_eos = true;
    }
    const auto piece = replay(*pipeline, work, {.salt = 1});
    EXPECT_TRUE(piece.ok()) << piece.status().message();
    return piece.ok() ? *piece : MeasuredPiece();
  }

  std::unique_ptr<PluginRegistry> registry_;
  std::unique_ptr<VirtualClock> clock_;
  std::optional<double> acceptance_;
  double network_ = 1e9;
  TemporaryFolder folder_;
};

// So little memory that sequences wait and are preempted.
std::vector<std::string> tight(const std::string& scheduler, const std::string& kv_cache) {
  // A region of "naive" is one block.
  const std::string block_tokens = kv_cache == "naive" ? "auto" : "16";
  return {"scheduler.plugin=" + scheduler, "kv_cache.plugin=" + kv_cache,
          "kv_cache.memory=1MiB",          "kv_cache.block_tokens=" + block_tokens,
          "limits.context_tokens=64",      "limits.max_sequences=4",
          "limits.max_batch_tokens=48"};
}

class FollowedTest : public SimulationTest,
                     public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// A smaller model, limits and memory of all sizes, and options of what the pair takes. Two worlds
// of one number differ from pair to pair.
std::vector<std::string> random_settings(const std::string& scheduler, const std::string& kv_cache,
                                         uint64_t seed) {
  std::mt19937_64 random(seed * 1000 + scheduler.size() * 10 + kv_cache.size());
  const auto one_of = [&random](const std::vector<std::string>& words) {
    return words[random() % words.size()];
  };
  const bool blocks = kv_cache != "naive";
  std::vector<std::string> out = {
      "scheduler.plugin=" + scheduler, "kv_cache.plugin=" + kv_cache,
      "kv_cache.block_tokens=" + (blocks ? one_of({"4", "8", "16", "32"}) : "auto"),
      // 512 bytes a token: of one whole sequence and somewhat more, up to all of them.
      "kv_cache.memory=" + std::to_string(48 + random() % 160) + "KiB", "limits.context_tokens=64",
      "limits.max_sequences=" + std::to_string(1 + random() % 6),
      "limits.max_batch_tokens=" + std::to_string(48 + random() % 48)};
  if (scheduler == "continuous" || scheduler == "chunked") {
    out.push_back("scheduler.options.policy=" + one_of({"fcfs", "priority", "shortest_first"}));
  }
  if (scheduler == "chunked" && random() % 2 == 0) {
    out.push_back("scheduler.options.step_tokens=" + std::to_string(4 + random() % 40));
  }
  if (scheduler != "static" && blocks && random() % 3 == 0) {
    out.push_back("scheduler.options.preempt=swap");
    out.push_back("kv_cache.swap_memory=" + std::to_string(16 + random() % 100) + "KiB");
  }
  return out;
}

TEST_P(FollowedTest, every_view_and_decision_is_that_of_the_run_that_was_recorded) {
  const auto [scheduler, kv_cache] = GetParam();
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    follows(tight(scheduler, kv_cache), seed);
  }
}

TEST_P(FollowedTest, so_are_those_of_random_worlds) {
  const auto [scheduler, kv_cache] = GetParam();
  const uint64_t one = number_in("TENON_TEST_WORLD", 0);
  const uint64_t last = one > 0 ? one : number_in("TENON_TEST_WORLDS", 3);
  for (uint64_t world = std::max<uint64_t>(one, 1); world <= last && !HasFailure(); ++world) {
    const std::vector<std::string> settings = random_settings(scheduler, kv_cache, world);
    SCOPED_TRACE("TENON_TEST_WORLD=" + std::to_string(world) + ": " +
                 testing::PrintToString(settings));
    follows(settings, world, source_folder() + "/configs/models/tale-draft");
  }
}

INSTANTIATE_TEST_SUITE_P(simulation, FollowedTest,
                         testing::Combine(testing::Values("static", "continuous", "chunked", "fair",
                                                          "example.least_slack"),
                                          testing::Values("naive", "paged", "prefix", "radix")));

TEST_F(SimulationTest, drafts_are_followed_too) {
  for (const char* drafter : {"ngram", "suffix"}) {
    SCOPED_TRACE(drafter);
    std::vector<std::string> settings = tight("continuous", "paged");
    settings.push_back(std::string("drafter.plugin=") + drafter);
    // What drafts cost is measured at the start, which a simulation does not repeat.
    settings.push_back("drafter.options.adaptive=false");
    follows(settings, 4);
  }
}

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

size_t calls_of(const std::string& name, const std::function<void()>& run) {
  start_call_trace();
  run();
  const CallTrace trace = take_call_trace();
  return static_cast<size_t>(std::ranges::count_if(
      trace.calls, [&](const TracedCall& call) { return call_text(call.name) == name; }));
}

// Where calls are looked at closely, every step is one in full; else those that repeat the one
// before are taken without a plan (SteadySteps).
TEST_F(SimulationTest, steps_without_a_plan_give_what_steps_in_full_give) {
  const char* const memories[] = {"8MiB", "500KiB", "200KiB"};  // for all, some, one or two
  for (const std::string scheduler : {"chunked", "continuous", "fair", "static"}) {
    const std::string call = "steady_plans pass of scheduler '" + scheduler + "'";
    for (const std::string kv_cache : {"paged", "prefix", "radix", "naive"}) {
      size_t passed = 0;
      for (const uint64_t seed : {0, 1, 2}) {
        SCOPED_TRACE(scheduler + " over " + kv_cache + ", " + std::to_string(seed));
        std::vector<std::string> settings = tight(scheduler, kv_cache);
        settings.push_back(std::string("kv_cache.memory=") + memories[seed]);
        for (const char* wider :
             {"max_sequences=6", "context_tokens=200", "max_batch_tokens=200"}) {
          settings.push_back(std::string("limits.") + wider);
        }
        MeasuredPiece quick, full;
        passed += calls_of(call, [&] { quick = long_piece(settings, seed); });
        settings.emplace_back("engine.guard=checks");
        EXPECT_EQ(calls_of(call, [&] { full = long_piece(settings, seed); }), 0u);
        EXPECT_EQ(piece_json(quick).dump(), piece_json(full).dump());
        ASSERT_EQ(quick.requests.size(), full.requests.size());
        for (size_t i = 0; i < quick.requests.size(); ++i) {
          EXPECT_EQ(row_json(quick.requests[i]).dump(), row_json(full.requests[i]).dump());
        }
        if (HasFailure()) return;
      }
      EXPECT_EQ(passed > 50, scheduler.starts_with("c")) << passed << " over " << kv_cache;
    }
  }
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
