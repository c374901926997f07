// Runs that really happened, followed decision by decision, and simulations whose steps are not all
// planned, which find what those find whose steps are.
//
//   TENON_TEST_WORLDS=50 tenon_pipeline_tests --gtest_filter='*Worlds*'     1,000 random worlds
//   TENON_TEST_WORLD=17 tenon_pipeline_tests --gtest_filter='*Worlds*'      one of each pair
#include <functional>

#include "core/base/calls/call_trace.h"
#include "tests/pipeline/simulation_fixture.h"

namespace tenon::compare {
namespace {

class FollowedWorlds : public SimulationTest,
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
  const auto add = [&](const std::string& option, const std::vector<std::string>& values) {
    if (random() % 3 == 0) out.push_back("scheduler.options." + option + "=" + one_of(values));
  };
  if (scheduler == "chunked" || scheduler == "fair") {
    add("long_prompt_threshold", {"3", "7", "20"});
    add("max_partial_prompts", {"1", "2"});
  }
  if (scheduler == "continuous") add("chunk_tokens", {"5", "16"});
  if (scheduler == "continuous" || scheduler == "chunked") {
    add("waiting_served_ratio", {"0.5", "1.5"});
    add("max_sequences", {"2", "3"});
    add("victim", {"last", "lowest_priority", "least_cost"});
  }
  if (scheduler != "static" && blocks && random() % 3 == 0) {
    out.push_back("scheduler.options.preempt=swap");
    out.push_back("kv_cache.swap_memory=" + std::to_string(16 + random() % 100) + "KiB");
  }
  return out;
}

TEST_P(FollowedWorlds, every_view_and_decision_is_that_of_the_run_that_was_recorded) {
  const auto [scheduler, kv_cache] = GetParam();
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    follows(tight(scheduler, kv_cache), seed);
  }
}

TEST_P(FollowedWorlds, so_are_those_of_random_worlds) {
  const auto [scheduler, kv_cache] = GetParam();
  const uint64_t one = number_in("TENON_TEST_WORLD", 0);
  const uint64_t last = one > 0 ? one : number_in("TENON_TEST_WORLDS", 3);
  for (uint64_t world = std::max<uint64_t>(one, 1); world <= last && !HasFailure(); ++world) {
    std::vector<std::string> settings = random_settings(scheduler, kv_cache, world);
    if (world % 4 == 3) {
      settings.push_back(std::string("drafter.plugin=") + (world % 8 == 3 ? "ngram" : "suffix"));
      settings.emplace_back("drafter.options.adaptive=false");
    }
    SCOPED_TRACE("TENON_TEST_WORLD=" + std::to_string(world) + ": " +
                 testing::PrintToString(settings));
    follows(settings, world, source_folder() + "/configs/models/tale-draft",
            world % 2 == 0 ? Asked::more : Asked::tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(simulation, FollowedWorlds,
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

CallTrace traced(const std::function<void()>& run) {
  start_call_trace();
  run();
  return take_call_trace();
}
size_t calls_of(const std::string& name, const CallTrace& trace) {
  return static_cast<size_t>(std::ranges::count_if(
      trace.calls, [&](const TracedCall& call) { return call_text(call.name) == name; }));
}

void expect_equal(const MeasuredPiece& quick, const MeasuredPiece& full) {
  EXPECT_EQ(piece_json(quick).dump(), piece_json(full).dump());
  ASSERT_EQ(quick.requests.size(), full.requests.size());
  for (size_t i = 0; i < quick.requests.size(); ++i) {
    EXPECT_EQ(row_json(quick.requests[i]).dump(), row_json(full.requests[i]).dump());
  }
}

// Where calls are looked at closely, every step is one in full; else those that repeat the one
// before are taken without a plan (SteadySteps).
TEST_F(SimulationTest, steps_without_a_plan_give_what_steps_in_full_give) {
  const char* const memories[] = {"8MiB", "500KiB", "200KiB"};  // for all, some, one or two
  for (const std::string scheduler : {"chunked", "continuous", "fair", "static"}) {
    const std::string rest = "decodes_first plan of scheduler '" + scheduler + "'";
    const std::string call = "steady_plans pass of scheduler '" + scheduler + "'";
    for (const std::string kv_cache : {"paged", "prefix", "radix", "naive"}) {
      size_t passed = 0, asked_for_rest = 0;
      for (const uint64_t seed : {0, 1, 2}) {
        SCOPED_TRACE(scheduler + " over " + kv_cache + ", " + std::to_string(seed));
        std::vector<std::string> settings = tight(scheduler, kv_cache);
        settings.push_back(std::string("kv_cache.memory=") + memories[seed]);
        for (const char* wider :
             {"max_sequences=6", "context_tokens=200", "max_batch_tokens=200"}) {
          settings.push_back(std::string("limits.") + wider);
        }
        MeasuredPiece quick, full;
        const CallTrace trace = traced([&] { quick = long_piece(settings, seed); });
        passed += calls_of(call, trace);
        asked_for_rest += calls_of(rest, trace);
        settings.emplace_back("engine.guard=checks");
        const CallTrace none = traced([&] { full = long_piece(settings, seed); });
        EXPECT_EQ(calls_of(call, none) + calls_of(rest, none), 0u);
        expect_equal(quick, full);
        if (HasFailure()) return;
      }
      EXPECT_EQ(passed > 50, scheduler.starts_with("c")) << passed << " over " << kv_cache;
      EXPECT_EQ(asked_for_rest > 10, scheduler == "chunked")
          << asked_for_rest << " over " << kv_cache;
    }
  }
}

class QuickWorlds : public FollowedWorlds {};

// Random options, limits and memories, and requests that ask for more than tokens.
TEST_P(QuickWorlds, find_what_those_find_whose_steps_are_all_planned) {
  const auto [scheduler, kv_cache] = GetParam();
  const uint64_t one = number_in("TENON_TEST_WORLD", 0);
  const uint64_t last = one > 0 ? one : number_in("TENON_TEST_WORLDS", 4);
  for (uint64_t world = std::max<uint64_t>(one, 1); world <= last && !HasFailure(); ++world) {
    std::vector<std::string> settings = random_settings(scheduler, kv_cache, world);
    const char* const memories[] = {"8MiB", "1MiB", "400KiB", "120KiB"};
    settings.push_back(std::string("kv_cache.memory=") + memories[world % 4]);
    settings.push_back("limits.max_sequences=" + std::to_string(3 + world * 7 % 20));
    settings.emplace_back("limits.context_tokens=200");
    SCOPED_TRACE("TENON_TEST_WORLD=" + std::to_string(world) + ": " +
                 testing::PrintToString(settings));
    const Asked asked = world % 3 == 0 ? Asked::tokens : Asked::samples;
    const MeasuredPiece quick = long_piece(settings, world, asked);
    settings.emplace_back("engine.guard=checks");
    expect_equal(quick, long_piece(settings, world, asked));
  }
}

INSTANTIATE_TEST_SUITE_P(simulation, QuickWorlds,
                         testing::Combine(testing::Values("chunked", "continuous"),
                                          testing::Values("paged", "prefix", "radix")));

}  // namespace
}  // namespace tenon::compare
