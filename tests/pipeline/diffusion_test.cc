// Diffusion models in whole pipelines: answers are those of the published algorithm, whatever
// composes the pipeline, whoever else is in it and however short its memory is; or it is refused by
// name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/evaluate/perplexity.h"
#include "core/evaluate/teacher_forcing.h"
#include "core/exec/cpu/executor.h"
#include "core/exec/ref/executor.h"
#include "core/files/npy.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Overrides = std::vector<std::string>;
using Samples = std::vector<std::pair<std::vector<TokenId>, uint64_t>>;  // ids and digest

const std::string kGoldens = golden_models();
constexpr TokenId kMask = 98;

ExecutorFactories executors() {
  ExecutorFactories made;
  made["ref"] = [](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return make_ref_executor();
  };
  made["cpu"] = [](const HostFacts& host) { return make_cpu_executor({host.workers, host.cpu}); };
  return made;
}

class DiffusionPipelines : public testing::TestWithParam<const char*> {
 protected:
  DiffusionPipelines() {
    PluginSearch search;
    search.folders.push_back({build_folder() + "/plugins", "tests", true});
    auto opened = PluginRegistry::open(std::move(search));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    registry_ = std::make_unique<PluginRegistry>(*std::move(opened));
    std::ifstream file(kGoldens + GetParam() + "/answers.json");
    answers_ = nlohmann::json::parse(file);
  }

  Result<std::unique_ptr<Pipeline>> build(Overrides overrides, uint32_t workers = 2) {
    const bool named = std::ranges::any_of(
        overrides, [](const std::string& text) { return text.starts_with("model.path"); });
    if (!named) overrides.push_back("model.path=" + kGoldens + GetParam());
    overrides.push_back("limits.context_tokens=96");
    overrides.push_back("limits.max_batch_tokens=96");
    auto config = parse_pipeline_config("format = 1\n", "p.toml", "/", overrides);
    if (!config.ok()) return config.take_status();
    PipelineRequest request;
    request.config = *std::move(config);
    request.registry = registry_.get();
    request.executors = executors();
    request.host.cpu = detect_cpu_features();
    request.host.workers = workers;
    return build_pipeline(std::move(request));
  }
  std::string refusal(Overrides overrides) {
    const auto pipeline = build(std::move(overrides));
    return pipeline.ok() ? "none" : std::string(pipeline.status().message());
  }

  static Request request_of(const nlohmann::json& answer) {
    Request request;
    request.prompt = answer["prompt"].get<std::vector<TokenId>>();
    request.max_tokens = answer["gen_length"];
    request.block_length = answer["block_length"];
    request.steps = answer["steps"];
    if (answer["remasking"] == "random") request.remasking = Remasking::random;
    request.sampling.temperature = 0.0f;
    request.sampling.seed = answer["seed"];
    request.ignore_eos = true;
    return request;
  }
  // Those of the goldens, and each once more with noise.
  std::vector<Request> requests() const {
    std::vector<Request> all;
    for (const nlohmann::json& answer : answers_) {
      all.push_back(request_of(answer));
      all.push_back(all.back());
      all.back().sampling.temperature = 0.9f;
      all.back().sampling.top_k = 20;
    }
    return all;
  }
  std::vector<std::vector<TokenId>> expected_ids() const {
    std::vector<std::vector<TokenId>> all;
    for (const nlohmann::json& answer : answers_) {
      all.push_back(answer["tokens"].get<std::vector<TokenId>>());
    }
    return all;
  }

  std::vector<std::shared_ptr<ResultSink>> run_sinks(const Overrides& overrides,
                                                     std::vector<Request> submitted,
                                                     uint32_t workers = 2) {
    std::vector<std::shared_ptr<ResultSink>> sinks;
    auto pipeline = build(overrides, workers);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return sinks;
    EngineOptions options = (*pipeline)->engine_options();
    options.check_kv = options.logits_digest = true;
    Engine engine((*pipeline)->parts(), options);
    for (Request& request : submitted) {
      sinks.push_back(std::make_shared<ResultSink>());
      request.sink = sinks.back();
      const auto id = engine.submit(std::move(request));
      EXPECT_TRUE(id.ok()) << id.status().message();
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    EXPECT_EQ(engine.last_fault(), "");
    totals_ = engine.totals();
    return sinks;
  }
  Samples run(const Overrides& overrides, std::vector<Request> submitted, uint32_t workers = 2) {
    Samples samples;
    for (const auto& sink : run_sinks(overrides, std::move(submitted), workers)) {
      for (const ResultSink::Sample& sample : sink->samples()) {
        EXPECT_NE(sample.reason, FinishReason::error) << sample.message;
        samples.emplace_back(sample.ids(), sample.record.logits_digest);
      }
    }
    return samples;
  }
  // Each request in a pipeline of its own.
  Samples alone() {
    Samples all;
    for (const Request& request : requests()) {
      const Samples one = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, {request});
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  std::string memory_for(uint64_t tokens) {
    auto pipeline = build({});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    return "kv_cache.memory=" +
           std::to_string(tokens * (*pipeline)->group_geometry[0].bytes_per_token);
  }

  nlohmann::json answers_;
  std::unique_ptr<PluginRegistry> registry_;
  EngineTotals totals_;
};

INSTANTIATE_TEST_SUITE_P(Models, DiffusionPipelines,
                         testing::Values("llada", "llada_grouped", "llada_biases", "llada_tied"));

TEST_P(DiffusionPipelines, answers_are_those_of_the_published_algorithm) {
  std::vector<Request> all;
  for (const nlohmann::json& answer : answers_) all.push_back(request_of(answer));
  for (const char* executor : {"ref", "cpu"}) {
    SCOPED_TRACE(executor);
    const Samples samples = run({std::string("executor.plugin=") + executor}, all);
    std::vector<std::vector<TokenId>> ids;
    for (const auto& sample : samples) ids.push_back(sample.first);
    EXPECT_EQ(ids, expected_ids());
  }
}

TEST_P(DiffusionPipelines, schedulers_managers_and_company_change_no_token) {
  const Samples expected = alone();
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* manager : {"naive", "paged", "prefix", "radix"}) {
      SCOPED_TRACE(std::string(scheduler) + " " + manager);
      EXPECT_EQ(run({std::string("scheduler.plugin=") + scheduler,
                     std::string("kv_cache.plugin=") + manager},
                    requests()),
                expected);
    }
  }
}

TEST_P(DiffusionPipelines, threads_budgets_and_planning_ahead_change_no_token) {
  const Samples expected = alone();
  EXPECT_EQ(run({"limits.max_sequences=3"}, requests(), 1), expected);
  EXPECT_EQ(run({"scheduler.plugin=chunked", "scheduler.options.step_tokens=7"}, requests(), 3),
            expected);
  EXPECT_EQ(run({"scheduler.plugin=continuous", "scheduler.options.chunk_tokens=5"}, requests()),
            expected);
  EXPECT_EQ(run({"engine.plan_ahead=1"}, requests()), expected);
}

TEST_P(DiffusionPipelines, memory_that_is_short_puts_answers_off_and_changes_no_token) {
  const Samples expected = alone();
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* swap : {"0", "1MiB"}) {
      SCOPED_TRACE(std::string(scheduler) + " swap " + swap);
      EXPECT_EQ(run({std::string("scheduler.plugin=") + scheduler, memory_for(96),
                     "kv_cache.block_tokens=4", std::string("kv_cache.swap_memory=") + swap},
                    requests()),
                expected);
    }
  }
}

// The same prompt twice: what stands in the cache is never another sequence's.
TEST_P(DiffusionPipelines, prompts_that_are_alike_share_nothing) {
  const Request request = request_of(answers_[1]);
  for (const char* manager : {"prefix", "radix"}) {
    const Samples samples =
        run({std::string("kv_cache.plugin=") + manager, "kv_cache.block_tokens=4"},
            {request, request, request});
    ASSERT_EQ(samples.size(), 3u);
    for (const auto& sample : samples) EXPECT_EQ(sample.first, expected_ids()[1]);
    EXPECT_EQ(totals_.reused_tokens, 0u);
  }
}

TEST_P(DiffusionPipelines, noise_follows_the_seed_alone) {
  Request request = request_of(answers_[0]);
  request.sampling.temperature = 1.0f;
  Request other = request;
  other.sampling.seed += 1;
  const Samples samples = run({}, {request, other, request});
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0], samples[2]);
  EXPECT_NE(samples[0].first, samples[1].first);
}

TEST_P(DiffusionPipelines, an_answer_ends_at_the_first_token_that_ends_a_text) {
  const std::vector<TokenId> whole = expected_ids()[1];
  Request request = request_of(answers_[1]);
  request.stop_tokens = {whole[6]};
  const auto sinks = run_sinks({}, {request});
  ASSERT_EQ(sinks.size(), 1u);
  const ResultSink::Sample& sample = sinks[0]->samples().at(0);
  const auto end = std::find(whole.begin(), whole.end(), whole[6]) + 1;
  EXPECT_EQ(sample.ids(), std::vector<TokenId>(whole.begin(), end));
  EXPECT_EQ(sample.reason, FinishReason::stop);
  EXPECT_EQ(sample.record.generated_tokens, sample.ids().size());
}

// Tokens come out as soon as nothing before them is still a mask.
TEST_P(DiffusionPipelines, finished_blocks_are_handed_out_while_others_are_made) {
  struct Counting final : RequestSink {
    void on_delta(const RequestDelta& delta) override {
      sizes.push_back(delta.tokens.size());
      for (const GeneratedToken& token : delta.tokens) ids.push_back(token.token);
    }
    void on_end(const RequestEnd& end) override { reason = end.reason; }
    std::vector<size_t> sizes;
    std::vector<TokenId> ids;
    FinishReason reason = FinishReason::error;
  };
  auto pipeline = build({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  Engine engine((*pipeline)->parts());
  auto sink = std::make_shared<Counting>();
  Request request = request_of(answers_[1]);
  request.sink = sink;
  ASSERT_TRUE(engine.submit(std::move(request)).ok());
  // 16 tokens in blocks of 4, a step each.
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(engine.step().ok());
  EXPECT_GE(sink->ids.size(), 4u);
  EXPECT_LT(sink->ids.size(), 16u);
  ASSERT_TRUE(engine.run_until_idle(100).ok());
  EXPECT_EQ(sink->ids, expected_ids()[1]);
  EXPECT_EQ(sink->reason, FinishReason::length);
}

TEST_P(DiffusionPipelines, log_probabilities_are_those_of_the_step_that_kept_the_token) {
  Request request = request_of(answers_[2]);
  request.sampling.logprobs = 2;
  const auto sinks = run_sinks({}, {request, request_of(answers_[2])});
  ASSERT_EQ(sinks.size(), 2u);
  size_t made = 0;
  for (const ResultSink::Token& token : sinks[0]->samples().at(0).tokens) {
    if (token.token == kMask) continue;  // no step may have kept it
    ++made;
    EXPECT_LT(token.logprob, 0.0f);
    EXPECT_EQ(token.rank, 1u);
    ASSERT_EQ(token.top.size(), 2u);
    EXPECT_EQ(token.top[0].token, token.token);
    EXPECT_EQ(token.top[0].logprob, token.logprob);
  }
  EXPECT_GT(made, 8u);
  for (const ResultSink::Token& token : sinks[1]->samples().at(0).tokens) {
    EXPECT_EQ(token.rank, 0u);
    EXPECT_TRUE(token.top.empty());
  }
}

TEST_P(DiffusionPipelines, a_cancelled_answer_gives_its_memory_back) {
  auto pipeline = build({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  Engine engine((*pipeline)->parts());
  auto sink = std::make_shared<ResultSink>();
  Request request = request_of(answers_[0]);
  request.sink = sink;
  const auto id = engine.submit(std::move(request));
  ASSERT_TRUE(id.ok());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(engine.step().ok());
  engine.cancel(*id);
  ASSERT_TRUE(engine.run_until_idle(10).ok());
  EXPECT_EQ(sink->samples().at(0).reason, FinishReason::cancelled);
  KvUsage usage;
  ASSERT_TRUE((*pipeline)->kv_cache->usage(0, usage).ok());
  EXPECT_EQ(usage.reserved_tokens, 0u);
}

TEST_P(DiffusionPipelines, drafters_are_refused_by_name) {
  for (const char* drafter : {"ngram", "suffix"}) {
    EXPECT_THAT(refusal({std::string("drafter.plugin=") + drafter}),
                AllOf(HasSubstr("there is a [drafter], but the llada model generates by diffusion"),
                      HasSubstr("remove it")));
  }
}

TEST_P(DiffusionPipelines,
       managers_that_take_out_tokens_are_refused_unless_the_context_ends_first) {
  const std::string manager = "kv_cache.plugin=streaming";
  EXPECT_THAT(
      refusal({manager, "kv_cache.options.sink_tokens=4", "kv_cache.options.window_tokens=16",
               "kv_cache.options.stride_tokens=4", "kv_cache.block_tokens=4"}),
      AllOf(HasSubstr("kv_cache 'streaming' takes out tokens from "),
            HasSubstr("the llada model generates by diffusion")));
  EXPECT_EQ(refusal({manager, "kv_cache.options.window_tokens=512"}), "none");
}

TEST_P(DiffusionPipelines, no_other_model_is_drafted_for) {
  EXPECT_THAT(refusal({"model.path=" + kGoldens + "llama_gqa", "drafter.plugin=draft_model",
                       "drafter.model=" + kGoldens + "llada_grouped"}),
              HasSubstr("generates by diffusion; drafts need a model that generates token by "
                        "token"));
}

TEST_P(DiffusionPipelines, a_given_text_is_seen_as_a_whole_and_not_predicted) {
  auto pipeline = build({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  const auto tokens = read_npy_i32(kGoldens + GetParam() + "/tokens.npy");
  const auto logits = read_npy_f32(kGoldens + GetParam() + "/logits.npy");
  ASSERT_TRUE(tokens.ok() && logits.ok());
  const auto [low, high] = std::ranges::minmax(logits->values);
  size_t at = 0;
  float worst = 0.0f;
  const Status status = force_tokens(
      (*pipeline)->parts(), tokens->values, {}, [&](uint32_t, std::span<const float> row) {
        for (const float value : row) {
          worst = std::max(worst, std::abs(value - logits->values[at++]));
        }
        return Status();
      });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(at, logits->values.size());
  EXPECT_LE(worst, 1e-4f * (high - low));

  const auto none = [](uint32_t, auto) { return Status(); };
  const std::vector<uint32_t> chunks = {17};
  const Status cut = force_tokens((*pipeline)->parts(), tokens->values, chunks, none);
  EXPECT_THAT(std::string(cut.message()), HasSubstr("the first chunk has 17 of 40 tokens"));
  const auto surprised = measure_perplexity((*pipeline)->parts(), tokens->values, {40, 40},
                                            [](size_t, const Perplexity&) { return true; });
  EXPECT_THAT(std::string(surprised.status().message()),
              HasSubstr("the model generates by diffusion"));
}

}  // namespace
}  // namespace tenon
