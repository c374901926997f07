// engine.guard = "isolate" in whole pipelines: sound plugins change nothing, and what others do to
// their process is named and loses no request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/engine/engine.h"
#include "core/exec/ref/executor.h"
#include "core/isolation/isolated_drafter.h"
#include "core/isolation/isolated_sampler.h"
#include "core/isolation/isolated_scheduler.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using Overrides = std::vector<std::string>;

struct IsolationOutcome {
  std::vector<std::pair<std::vector<TokenId>, uint64_t>> samples;  // ids and digest, in order
  std::vector<std::string> errors;                                 // of requests that failed
  std::string fault;
  std::string lines;  // that were logged
};

ExecutorFactories only_ref() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  return made;
}

class Isolation : public testing::Test {
 protected:
  // A KV manager and a scheduler are installed; everything else is of strangers.
  Isolation() {
    for (const char* name : {"kv_cache_paged", "kv_cache_prefix", "scheduler_continuous"}) {
      const std::string file = std::string("/libtenon-") + name + ".so";
      std::filesystem::copy_file(build_folder() + "/plugins" + file, folder_.path() + file);
    }
    open(build_folder() + "/tests/pipeline/libtenon-faulty.so");
    set_log_sink([this](LogLevel, std::string_view component, std::string_view text) {
      lines_ << component << ": " << text << "\n";
    });
  }
  ~Isolation() override { set_log_sink({}); }

  void open(const std::string& faulty) {
    PluginSearch search;
    search.folders.push_back({folder_.path(), "install", false});
    for (const char* name :
         {"scheduler_chunked", "scheduler_fair", "sampler_standard", "drafter_ngram",
          "drafter_suffix", "drafter_draft_model", "kv_cache_radix"}) {
      search.files.push_back(
          {build_folder() + "/plugins/libtenon-" + name + ".so", {"test", 0, 0}});
    }
    search.files.push_back({faulty, {"test", 0, 0}});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
  }

  Result<std::unique_ptr<Pipeline>> build(Overrides overrides) {
    overrides.insert(overrides.begin(),
                     {"model.path=" + golden_models() + "llama_gqa", "executor.plugin=ref",
                      "limits.context_tokens=96", "limits.max_batch_tokens=64"});
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", overrides);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors = only_ref();
    request.host.workers = 2;
    return build_pipeline(std::move(request));
  }
  std::string refusal(Overrides overrides) {
    const auto pipeline = build(std::move(overrides));
    return pipeline.ok() ? "none" : std::string(pipeline.status().message());
  }

  // Prompts that repeat themselves, so that drafters find something; half of them are drawn.
  static std::vector<Request> requests() {
    std::vector<Request> all;
    for (uint32_t i = 0; i < 6; ++i) {
      Request request;
      for (uint32_t token = 0; token < 12 + 5 * i; ++token) {
        request.prompt.push_back(static_cast<TokenId>(3 + (token % 7 * (5 + i) + i) % 70));
      }
      request.max_tokens = 10 + 2 * i;
      request.ignore_eos = true;
      request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
      request.sampling.seed = i;
      request.samples = i == 3 ? 2 : 1;
      all.push_back(std::move(request));
    }
    return all;
  }

  using OnStep = std::function<void(Pipeline&, const StepRecord&)>;
  IsolationOutcome run(Overrides overrides, std::vector<Request> submitted,
                       const OnStep& on_step = {}) {
    IsolationOutcome outcome;
    auto pipeline = build(std::move(overrides));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return outcome;
    EngineOptions options = (*pipeline)->engine_options();
    options.check_kv = options.logits_digest = true;
    if (on_step) options.on_step = [&](const StepRecord& record) { on_step(**pipeline, record); };
    Engine engine((*pipeline)->parts(), options);
    std::vector<std::shared_ptr<ResultSink>> sinks;
    for (Request& request : submitted) {
      sinks.push_back(std::make_shared<ResultSink>());
      request.sink = sinks.back();
      const auto id = engine.submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.status().message();
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    for (const auto& sink : sinks) {
      for (const ResultSink::Sample& sample : sink->samples()) {
        if (sample.reason == FinishReason::error) outcome.errors.push_back(sample.message);
        outcome.samples.emplace_back(sample.ids(), sample.record.logits_digest);
      }
    }
    outcome.fault = engine.last_fault();
    outcome.lines = lines_.str();
    return outcome;
  }
  // With a scheduler of the faulty ones, in its own process.
  IsolationOutcome run_scheduler(const std::string& id, Overrides more = {}) {
    more.insert(more.end(), {"engine.guard=isolate", "scheduler.plugin=" + id});
    return run(std::move(more), requests());
  }
  std::string memory_for(uint64_t tokens) {
    auto pipeline = build({"kv_cache.block_tokens=4"});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    uint64_t bytes = 0;
    for (const KvGroupGeometry& group : (*pipeline)->group_geometry) {
      bytes += tokens * group.bytes_per_token;
    }
    return "kv_cache.memory=" + std::to_string(bytes);
  }
  IsolationOutcome expected() { return run({}, requests()); }
  void expect_nothing_lost(const IsolationOutcome& outcome) {
    EXPECT_THAT(outcome.errors, testing::IsEmpty());
    EXPECT_EQ(outcome.samples, expected().samples);
  }

  TemporaryFolder folder_;
  std::unique_ptr<PluginRegistry> registry_;
  std::ostringstream lines_;
};

TEST_F(Isolation, every_level_has_the_same_tokens) {
  const std::vector<Overrides> compositions = {
      {"scheduler.plugin=chunked", "drafter.plugin=ngram"},
      {"scheduler.plugin=fair", "kv_cache.plugin=prefix", "drafter.plugin=suffix"},
      {"scheduler.plugin=chunked", "drafter.plugin=ngram", "drafter.verify=rejection"},
      {"scheduler.plugin=fair", "engine.plan_ahead=1"},
      {"scheduler.plugin=test.sound"},
  };
  for (const Overrides& composition : compositions) {
    SCOPED_TRACE(testing::PrintToString(composition));
    const IsolationOutcome off = run(composition, requests());
    EXPECT_THAT(off.errors, testing::IsEmpty());
    for (const char* guard : {"engine.guard=checks", "engine.guard=isolate"}) {
      Overrides guarded = composition;
      guarded.emplace_back(guard);
      const IsolationOutcome outcome = run(guarded, requests());
      EXPECT_EQ(outcome.samples, off.samples) << guard;
      EXPECT_EQ(outcome.fault, "") << guard;
      EXPECT_THAT(outcome.errors, testing::IsEmpty()) << guard;
    }
  }
}

TEST_F(Isolation, memory_that_runs_short_has_the_same_tokens) {
  // A sequence may have 96 tokens; the longest has 57.
  const Overrides scarce = {"scheduler.plugin=chunked", "kv_cache.block_tokens=4", memory_for(100)};
  const IsolationOutcome off = run(scarce, requests());
  EXPECT_THAT(off.errors, testing::IsEmpty());
  Overrides isolated = scarce;
  isolated.emplace_back("engine.guard=isolate");
  const IsolationOutcome outcome = run(isolated, requests());
  EXPECT_EQ(outcome.samples, off.samples);
  EXPECT_EQ(outcome.errors, off.errors);
  EXPECT_EQ(outcome.fault, off.fault);
}

TEST_F(Isolation, a_strangers_library_is_never_loaded_into_this_process) {
  const TemporaryFolder strangers;
  const std::string path = strangers.path("libtenon-faulty.so");
  std::filesystem::copy_file(build_folder() + "/tests/pipeline/libtenon-faulty.so", path);
  open(path);
  EXPECT_EQ(run_scheduler("test.sound").samples, expected().samples);
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), {});
  EXPECT_THAT(text, Not(HasSubstr(path)));
}

TEST_F(Isolation, what_a_plugin_counts_is_counted_here) {
  uint64_t plans = 0;
  (void)run({"engine.guard=isolate", "scheduler.plugin=test.sound"}, requests(),
            [&](Pipeline& pipeline, const StepRecord&) {
              plans = pipeline.scheduler.object().host().counters()["plans"];
            });
  EXPECT_GT(plans, 10u);
}

TEST_F(Isolation, a_scheduler_killed_in_the_middle_of_a_plan_is_named_and_nothing_is_lost) {
  const IsolationOutcome outcome = run_scheduler("test.is_killed");
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'test.is_killed': its process was ended by "
                                       "signal 9 (Killed) in plan"));
  EXPECT_THAT(outcome.lines, HasSubstr("from here on 'continuous' plans in its place"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_scheduler_that_crashes_or_exits_is_named_and_nothing_is_lost) {
  const IsolationOutcome crashed = run_scheduler("test.crashes");
  EXPECT_THAT(crashed.fault, HasSubstr("scheduler 'test.crashes': its process "));
  EXPECT_THAT(crashed.fault, HasSubstr(" in plan"));
  expect_nothing_lost(crashed);
  const IsolationOutcome exited = run_scheduler("test.exits");
  EXPECT_THAT(exited.fault, ContainsRegex("its process ended with status [0-9]+ in plan"));
  expect_nothing_lost(exited);
}

TEST_F(Isolation, a_scheduler_that_throws_is_named_and_nothing_is_lost) {
  const IsolationOutcome outcome = run_scheduler("test.throws");
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'test.throws': "));
  EXPECT_THAT(outcome.fault, HasSubstr("it had enough"));
  EXPECT_THAT(outcome.lines, HasSubstr("from here on 'continuous' plans in its place"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_scheduler_that_keeps_breaking_its_contract_is_named_and_nothing_is_lost) {
  const IsolationOutcome outcome = run_scheduler("test.grants_twice");
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'test.grants_twice' broke its contract: the plan "
                                       "grants sequence"));
  EXPECT_THAT(outcome.lines, HasSubstr("from here on 'continuous' plans in its place"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_plan_that_does_not_return_ends_at_its_limit_and_nothing_is_lost) {
  const IsolationOutcome outcome = run_scheduler("test.loops", {"engine.call_limit=2s"});
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'test.loops': its process did not return within "
                                       "2s (engine.call_limit) in plan"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_plan_that_takes_ten_gigabytes_gets_what_it_may_have_and_nothing_is_lost) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need room without a limit";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers need room without a limit";
#endif
#endif
  const IsolationOutcome outcome =
      run_scheduler("test.is_hungry", {"engine.process_memory=256MiB"});
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'test.is_hungry': "));
  EXPECT_THAT(outcome.fault, HasSubstr("memory"));
  EXPECT_THAT(outcome.lines, HasSubstr("from here on 'continuous' plans in its place"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_scheduler_killed_from_outside_is_named_and_nothing_is_lost) {
  const IsolationOutcome outcome = run({"engine.guard=isolate", "scheduler.plugin=chunked"},
                                       requests(), [](Pipeline& pipeline, const StepRecord& step) {
                                         auto& isolated =
                                             static_cast<IsolatedScheduler&>(*pipeline.scheduler);
                                         if (step.step_id == 5) ::kill(isolated.process(), SIGKILL);
                                       });
  EXPECT_THAT(outcome.fault, HasSubstr("scheduler 'chunked': its process was ended by signal 9"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_sampler_killed_from_outside_is_started_anew_and_draws_the_same_tokens) {
  const IsolationOutcome outcome =
      run({"engine.guard=isolate"}, requests(), [](Pipeline& pipeline, const StepRecord& step) {
        auto& isolated = static_cast<IsolatedSampler&>(*pipeline.sampler);
        if (step.step_id == 5) ::kill(isolated.process(), SIGKILL);
      });
  EXPECT_THAT(outcome.lines, HasSubstr("sampler standard: its process was ended by signal 9 "
                                       "(Killed) in "));
  EXPECT_THAT(outcome.lines, HasSubstr("started anew (1 of 8)"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, a_sequence_whose_sampler_remembers_ends_with_an_error_when_that_is_lost) {
  std::vector<Request> submitted = requests();
  submitted[1].sampling.mirostat = 2;
  const IsolationOutcome outcome = run({"engine.guard=isolate"}, std::move(submitted),
                                       [](Pipeline& pipeline, const StepRecord& step) {
                                         auto& isolated =
                                             static_cast<IsolatedSampler&>(*pipeline.sampler);
                                         if (step.step_id == 5) ::kill(isolated.process(), SIGKILL);
                                       });
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("sampler 'standard' found no token"));
  const IsolationOutcome others = expected();
  ASSERT_EQ(outcome.samples.size(), others.samples.size());
  for (size_t i = 0; i < others.samples.size(); ++i) {
    if (i == 1) continue;
    EXPECT_EQ(outcome.samples[i], others.samples[i]);
  }
}

TEST_F(Isolation, a_row_that_ends_its_sampler_fails_alone) {
  std::vector<Request> submitted = requests();
  submitted.resize(3);
  for (Request& request : submitted) request.sampling.temperature = 0.0f;
  const Overrides overrides = {"engine.guard=isolate", "sampler.plugin=test.poisoned"};
  const IsolationOutcome sound = run(overrides, submitted);
  EXPECT_THAT(sound.errors, testing::IsEmpty());
  submitted[1].prompt[0] = 77;
  const IsolationOutcome outcome = run(overrides, submitted);
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("sampler 'test.poisoned' found no token"));
  ASSERT_EQ(outcome.samples.size(), 3u);
  EXPECT_EQ(outcome.samples[0], sound.samples[0]);
  EXPECT_EQ(outcome.samples[2], sound.samples[2]);
}

TEST_F(Isolation, a_drafter_that_is_lost_changes_no_token) {
  const IsolationOutcome outcome =
      run({"engine.guard=isolate", "drafter.plugin=test.is_killed"}, requests());
  EXPECT_THAT(outcome.fault, HasSubstr("drafter 'test.is_killed' could not draft: its process was "
                                       "ended by signal 9 (Killed) in draft"));
  EXPECT_THAT(outcome.lines, HasSubstr("from here on nothing is drafted"));
  expect_nothing_lost(outcome);
}

TEST_F(Isolation, what_cannot_have_a_process_of_its_own_is_refused) {
  EXPECT_THAT(refusal({"engine.guard=isolate", "kv_cache.plugin=radix"}),
              HasSubstr("plugins for kv_cache share memory with the executor and cannot"));
  EXPECT_THAT(refusal({"engine.guard=isolate", "scheduler.plugin=chunked",
                       "engine.fallback.scheduler=fair"}),
              HasSubstr("engine.fallback.scheduler is 'fair', which would be isolated itself"));
  EXPECT_EQ(refusal({"engine.guard=checks", "kv_cache.plugin=radix"}), "none");
}

TEST_F(Isolation, options_are_checked_as_they_are_without_it) {
  const Overrides wrong = {"scheduler.plugin=chunked", "scheduler.options.step_tokens=lots"};
  Overrides isolated = wrong;
  isolated.emplace_back("engine.guard=isolate");
  EXPECT_EQ(refusal(isolated), refusal(wrong));
  EXPECT_THAT(refusal(wrong), HasSubstr("step_tokens"));
}

}  // namespace
}  // namespace tenon
