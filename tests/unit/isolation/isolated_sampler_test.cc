// A sampler's process called by several threads at once, and lost meanwhile.
#include "core/isolation/isolated_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/isolation/isolated_library.h"
#include "core/plugin/instance.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

constexpr uint32_t kVocabulary = 200;
constexpr TokenId kPoison = 77;  // of faulty.cc

class IsolatedSamplers : public testing::Test {
 protected:
  IsolatedSamplers() {
    set_log_sink([](LogLevel, std::string_view, std::string_view) {});
    host_.workers = 3;
    const std::string path = build_folder() + "/tests/pipeline/libtenon-faulty.so";
    const auto library = isolate_library(path, {}, {});
    EXPECT_TRUE(library.ok()) << library.status().message();
    const PluginDescriptor* plugin = (*library)->find(kSamplerInterface, "test.poisoned");
    auto made = PluginInstance<Sampler>::create({*library, plugin}, *fill_options(*plugin, {}),
                                                {&host_, &clock_, &facts_, nullptr});
    EXPECT_TRUE(made.ok()) << made.status().message();
    sampler_ = *std::move(made);
  }
  ~IsolatedSamplers() override { set_log_sink({}); }

  IsolatedSampler& isolated() { return static_cast<IsolatedSampler&>(*sampler_); }
  void begin(SeqId seq) {
    const Status status = sampler_->begin(seq, {}, kNoSeq);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // Rows of one sequence, whose most likely tokens are `first`, `first` + 1, …
  std::vector<TokenId> sample(SeqId seq, TokenId prompt, uint32_t first, uint32_t rows) {
    std::vector<std::vector<float>> logits(rows, std::vector<float>(kVocabulary, 0.0f));
    const std::vector<TokenId> history = {prompt, 2, 3};
    std::vector<SampleRow> asked(rows);
    std::vector<SampleResult> results(rows);
    for (uint32_t i = 0; i < rows; ++i) {
      logits[i][(first + i) % kVocabulary] = 1.0f;
      asked[i].seq = seq;
      asked[i].logits = logits[i].data();
      asked[i].vocabulary = kVocabulary;
      asked[i].history = history;
    }
    const Status status = sampler_->sample(asked, results);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<TokenId> tokens;
    for (const SampleResult& result : results) tokens.push_back(result.token);
    return tokens;
  }

  HostFacts host_;
  WallClock clock_;
  PipelineFacts facts_;
  PluginInstance<Sampler> sampler_;
};

TEST_F(IsolatedSamplers, several_threads_get_their_own_rows_also_from_a_process_that_is_lost) {
  constexpr uint32_t kThreads = 6;  // more than there are lanes
  for (SeqId seq = 0; seq < kThreads; ++seq) begin(seq);
  for (int round = 0; round < 3; ++round) {
    const pid_t process = isolated().process();
    std::vector<std::thread> threads;
    for (SeqId seq = 0; seq < kThreads; ++seq) {
      threads.emplace_back([this, seq] {
        for (uint32_t turn = 0; turn < 20; ++turn) {
          const uint32_t first = seq * 30 + turn;
          const std::vector<TokenId> tokens = sample(seq, 1, first, 3);
          for (uint32_t i = 0; i < 3; ++i) {
            EXPECT_EQ(tokens[i], static_cast<TokenId>((first + i) % kVocabulary));
          }
        }
      });
    }
    ::kill(process, SIGKILL);
    for (std::thread& thread : threads) thread.join();
  }
  for (SeqId seq = 0; seq < kThreads; ++seq) EXPECT_TRUE(sampler_->end(seq).ok());
}

TEST_F(IsolatedSamplers, after_many_restarts_every_row_fails) {
  begin(1);
  // Each row is asked for again in a process that was started for it.
  for (uint32_t i = 0; i < IsolatedSampler::kMostRestarts; ++i) {
    EXPECT_EQ(sample(1, kPoison, 5, 1)[0], kNoToken);
  }
  const std::vector<TokenId> history = {kPoison};
  const std::vector<float> logits(kVocabulary, 0.0f);
  SampleRow row;
  row.seq = 1;
  row.logits = logits.data();
  row.vocabulary = kVocabulary;
  row.history = history;
  SampleResult result;
  const Status status = sampler_->sample({&row, 1}, {&result, 1});
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("it was started anew 8 times"));
}

}  // namespace
}  // namespace tenon
