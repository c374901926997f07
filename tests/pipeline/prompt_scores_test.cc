// The log probabilities of a prompt are said once, whichever of a request's samples computes it,
// how often its memory is taken away, and whether a step is planned while another one runs.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using test::Overrides;

class PromptScores : public test::RecurrentPipelinesOn {
 protected:
  PromptScores() : RecurrentPipelinesOn(test::host_executors()) {}

  struct Said {
    std::vector<std::vector<float>> prompts;
    std::vector<std::vector<TokenId>> samples;
    uint64_t preemptions = 0;
  };
  Said said(const Overrides& overrides) {
    Said said;
    auto pipeline = build(overrides);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    if (!pipeline.ok()) return said;
    EngineOptions options = (*pipeline)->engine_options();
    options.check_kv = true;
    Engine engine((*pipeline)->parts(), options);
    std::vector<std::shared_ptr<ResultSink>> sinks;
    for (Request& request : requests()) {
      sinks.push_back(std::make_shared<ResultSink>());
      request.sink = sinks.back();
      request.prompt_logprobs = true;
      request.samples = 1 + sinks.size() % 3;
      EXPECT_TRUE(engine.submit(std::move(request)).ok());
    }
    const Status ended = engine.run_until_idle(20000);
    EXPECT_TRUE(ended.ok()) << ended.message();
    for (const auto& sink : sinks) {
      auto& prompt = said.prompts.emplace_back();
      for (const ResultSink::Token& token : sink->prompt()) prompt.push_back(token.logprob);
      for (const ResultSink::Sample& sample : sink->samples()) said.samples.push_back(sample.ids());
    }
    said.preemptions = engine.totals().preemptions;
    return said;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, PromptScores, testing::Values("llama_tied", "granite4"));

TEST_P(PromptScores, are_said_once) {
  const Said alone = said({"scheduler.plugin=static", "kv_cache.plugin=naive"});
  const auto asked = requests();
  ASSERT_EQ(alone.prompts.size(), asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(alone.prompts[i].size(), asked[i].prompt.size() - 1);
  }
  uint64_t preemptions = 0;
  for (const char* scheduler : {"continuous", "chunked", "fair"}) {
    for (const char* manager : {"paged", "prefix", "radix"}) {
      for (const char* ahead : {"0", "1"}) {
        Overrides overrides = {std::string("scheduler.plugin=") + scheduler,
                               std::string("kv_cache.plugin=") + manager,
                               std::string("engine.plan_ahead=") + ahead, "kv_cache.block_tokens=2",
                               "limits.max_sequences=6"};
        overrides.push_back(memory_for(6, 160, {"kv_cache.block_tokens=2"}));
        SCOPED_TRACE(overrides[0] + " " + overrides[1] + " " + overrides[2]);
        const Said now = said(overrides);
        EXPECT_EQ(now.prompts, alone.prompts);
        EXPECT_EQ(now.samples, alone.samples);
        preemptions += now.preemptions;
      }
    }
  }
  EXPECT_GT(preemptions, 0u);
}

}  // namespace
}  // namespace tenon
