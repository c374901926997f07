// A pipeline as an arm of a comparison: replays of a workload, and predictions held against each
// other.
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stop_token>
#include <thread>

#include "core/base/machine/cpu_cores.h"
#include "core/compare/arms/pipeline_arm.h"
#include "tests/pipeline/pipeline_fixture.h"
#include "tests/support/temporary_folder.h"

namespace tenon::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CompareArmTest : public PipelineTest {
 protected:
  CompareArmTest() {
    pipeline_ = built(
        kRef, {"kv_cache.plugin=paged", "scheduler.plugin=continuous", "limits.context_tokens=64"});
  }
  Json load_order() const {
    return {{"do", "load"},
            {"workload", work_},
            {"max_tokens", 4},
            {"in_flight", 2},
            {"vocabulary", 0}};
  }
  static Json run_order() {
    return {{"do", "run"}, {"digests", true}, {"salt", 1}, {"warm", false}, {"keep", false}};
  }
  Json text_order(const std::string& what) const {
    return {{"do", what}, {"text", text_}, {"tokens", 12}, {"window", 5}};
  }
  MeasuredPiece piece_of_run(PipelineArm& arm, const Json& order) {
    const auto answer = arm.answer(order);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    MeasuredPiece piece;
    if (!answer.ok()) return piece;
    auto read = piece_of(*answer);
    EXPECT_TRUE(read.ok()) << read.status().message();
    if (read.ok()) piece = *std::move(read);
    for (const Json& row : (*answer)["requests"]) piece.requests.push_back(*row_of(row));
    return piece;
  }

  TemporaryFolder folder_;
  std::string work_ =
      folder_.write_file("work.jsonl",
                         "{\"prompt\": \"Once upon\", \"ignore_eos\": true}\n"
                         "{\"prompt\": [5, 6, 7], \"ignore_eos\": true, \"max_tokens\": 2}\n"
                         "{\"prompt\": \"a time\", \"ignore_eos\": true}\n");
  std::string text_ = folder_.write_file(
      "text.txt", "Once upon a time there was a little girl who lived in a big house.");
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::string> notes_;
};

TEST_F(CompareArmTest, it_describes_the_pipeline_it_is) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  const auto answer = arm.answer({{"do", "describe"}});
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const auto described = arm_of(*answer);
  ASSERT_TRUE(described.ok()) << described.status().message();
  EXPECT_EQ(described->plugins.at("executor"), "ref");
  EXPECT_EQ(described->plugins.at("kv_cache"), "paged");
  EXPECT_EQ(described->numerics, pipeline_->numerics);
}

TEST_F(CompareArmTest, a_replay_answers_every_request_alike_each_time) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  const auto loaded = arm.answer(load_order());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)["requests"], 3);
  const MeasuredPiece first = piece_of_run(arm, run_order());
  Json order = run_order();
  order["salt"] = 2;
  order["keep"] = true;
  const MeasuredPiece second = piece_of_run(arm, order);
  EXPECT_EQ(first.generated_tokens, 10u);
  ASSERT_EQ(first.requests.size(), 3u);
  ASSERT_EQ(second.requests.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first.requests[i].tokens, i == 1 ? 2u : 4u);
    EXPECT_EQ(first.requests[i].answer, second.requests[i].answer);
    EXPECT_EQ(first.requests[i].digest, second.requests[i].digest);
    EXPECT_FALSE(first.requests[i].digest.empty());
  }
  EXPECT_GT(first.counters.at("decode_weight_bytes"), 0);
}

TEST_F(CompareArmTest, a_replay_in_turns_gives_the_answers_of_a_whole_one) {
  ASSERT_NE(pipeline_, nullptr);
  size_t waits = 0;
  PipelineArm arm(
      *pipeline_, [](const std::string&) {},
      [&waits]() -> Status {
        ++waits;
        return {};
      });
  ASSERT_TRUE(arm.answer(load_order()).ok());
  const MeasuredPiece whole = piece_of_run(arm, run_order());
  EXPECT_EQ(waits, 0u);
  Json order = run_order();
  order["turn_steps"] = 1;
  const MeasuredPiece cut = piece_of_run(arm, order);
  // The prompts' step and those of four tokens; nobody waits after the last.
  EXPECT_GE(waits, 3u);
  EXPECT_EQ(cut.turns.size(), waits + 1);
  ASSERT_EQ(cut.requests.size(), whole.requests.size());
  for (size_t i = 0; i < whole.requests.size(); ++i) {
    EXPECT_EQ(cut.requests[i].digest, whole.requests[i].digest);
  }
}

TEST_F(CompareArmTest, waits_for_a_processor_are_left_out_where_the_order_says_so) {
  ASSERT_NE(pipeline_, nullptr);
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "no schedstat";
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(usable_cores().front(), &one);
  if (::sched_setaffinity(0, sizeof(one), &one) != 0) GTEST_SKIP() << "no thread can be pinned";
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  ASSERT_TRUE(arm.answer(load_order()).ok());
  const MeasuredPiece whole = piece_of_run(arm, run_order());
  EXPECT_EQ(whole.waited_seconds, 0) << "they count unless somebody says that they do not";
  std::vector<std::jthread> hogs;  // on the same core, as they are this thread's
  for (int i = 0; i < 3; ++i) {
    hogs.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
      }
    });
  }
  Json order = run_order();
  order["count_waits"] = false;
  double waited = 0, counted = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < 200 && waited < 0.05; ++run) {
    const MeasuredPiece piece = piece_of_run(arm, order);
    ASSERT_EQ(piece.requests.size(), whole.requests.size());
    for (size_t i = 0; i < whole.requests.size(); ++i) {
      EXPECT_EQ(piece.requests[i].digest, whole.requests[i].digest);
    }
    waited += piece.waited_seconds;
    counted += piece.seconds;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ::sched_setaffinity(0, sizeof(before), &before);
  EXPECT_GE(waited, 0.05);
  EXPECT_LE(counted + waited, took.count());
  EXPECT_GT(counted, 0);
}

TEST_F(CompareArmTest, arrivals_are_one_for_each_request) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  Json order = load_order();
  order["arrivals_ns"] = {0, 1};
  const auto answer = arm.answer(order);
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("there are 2 arrivals of 3 requests"));
}

TEST_F(CompareArmTest, what_a_schema_says_in_vain_is_noted_once) {
  ASSERT_NE(pipeline_, nullptr);
  const std::string line =
      R"({"prompt": "a", "json_schema": {"type": "string", "format": "int32"}})"
      "\n";
  folder_.write_file("work.jsonl", line + line);
  PipelineArm arm(*pipeline_, [this](const std::string& note) { notes_.push_back(note); });
  const auto loaded = arm.answer(load_order());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("int32")));
}

TEST_F(CompareArmTest, a_pipeline_predicts_what_it_predicts_itself) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  const std::string file = folder_.path("predictions");
  Json order = text_order("predict");
  order["out"] = file;
  const auto predicted = arm.answer(order);
  ASSERT_TRUE(predicted.ok()) << predicted.status().message();
  order = text_order("judge");
  order["against"] = file;
  order["ids"] = (*predicted)["ids"];
  const auto judged = arm.answer(order);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  const auto fidelity = fidelity_of(*judged);
  ASSERT_TRUE(fidelity.ok());
  EXPECT_EQ(fidelity->text, "text.txt");
  EXPECT_EQ(fidelity->tokens, 9u);  // windows of 5, 5 and 2 tokens, the last of each unpredicted
  EXPECT_EQ(fidelity->same_top, 1);
  EXPECT_EQ(fidelity->base_perplexity, fidelity->perplexity);
  EXPECT_THAT(fidelity->window_kl_nats, testing::Each(0));
}

TEST_F(CompareArmTest, predictions_of_other_ids_are_not_judged) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  Json order = text_order("judge");
  order["against"] = folder_.path("predictions");
  order["ids"] = "of another tokenizer";
  const auto judged = arm.answer(order);
  ASSERT_FALSE(judged.ok());
  EXPECT_THAT(std::string(judged.status().message()), HasSubstr("is not the base's"));
}

TEST_F(CompareArmTest, predictions_that_were_cut_are_refused) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  const std::string file = folder_.path("predictions");
  Json order = text_order("predict");
  order["out"] = file;
  const auto predicted = arm.answer(order);
  ASSERT_TRUE(predicted.ok()) << predicted.status().message();
  std::ofstream(file, std::ios::trunc) << "short";
  order = text_order("judge");
  order["against"] = file;
  order["ids"] = (*predicted)["ids"];
  EXPECT_THAT(std::string(arm.answer(order).status().message()),
              HasSubstr("ends before the text does"));
}

TEST_F(CompareArmTest, an_order_that_is_none_is_refused) {
  ASSERT_NE(pipeline_, nullptr);
  PipelineArm arm(*pipeline_, [](const std::string&) {});
  EXPECT_EQ(arm.answer({{"do", "dance"}}).status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace tenon::compare
