#include <gtest/gtest.h>
#include <tenon/sampler.h>

#include <cstdlib>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

TokenId next(Sampler& sampler, SeqId seq, std::vector<TokenId> history, uint32_t prompt) {
  SampleRow row;
  row.seq = seq;
  row.vocabulary = 100;
  row.history = history;
  row.prompt_tokens = prompt;
  SampleResult result;
  EXPECT_TRUE(sampler.sample({&row, 1}, {&result, 1}).ok());
  return result.token;
}

OptionValue text(std::string_view value) {
  OptionValue option;
  option.text = value;
  return option;
}

TEST(Replay, speaks_its_recordings_in_turn_and_from_the_beginning_again) {
  TestHost host;
  PluginInstance<Sampler> sampler("replay", host, {{"tokens", text("5 6 7; 8")}});
  ASSERT_TRUE(sampler->begin(10, {}, kNoSeq).ok());
  ASSERT_TRUE(sampler->begin(11, {}, kNoSeq).ok());
  ASSERT_TRUE(sampler->begin(12, {}, kNoSeq).ok());
  EXPECT_EQ(next(*sampler, 10, {1, 2}, 2), 5);
  EXPECT_EQ(next(*sampler, 10, {1, 2, 5, 6}, 2), 7);
  EXPECT_EQ(next(*sampler, 10, {1, 2, 5, 6, 7}, 2), 5);
  EXPECT_EQ(next(*sampler, 11, {1}, 1), 8);
  EXPECT_EQ(next(*sampler, 12, {1}, 1), 5);
}

TEST(Replay, lets_forks_speak_as_their_parent) {
  TestHost host;
  PluginInstance<Sampler> sampler("replay", host, {{"tokens", text("5; 8; 9")}});
  ASSERT_TRUE(sampler->begin(0, {}, kNoSeq).ok());
  ASSERT_TRUE(sampler->begin(1, {}, kNoSeq).ok());
  ASSERT_TRUE(sampler->begin(2, {}, 1).ok());
  EXPECT_EQ(next(*sampler, 2, {1}, 1), 8);
}

TEST(Replay, fails_a_row_whose_vocabulary_is_smaller) {
  TestHost host;
  PluginInstance<Sampler> sampler("replay", host, {{"tokens", text("100")}});
  ASSERT_TRUE(sampler->begin(0, {}, kNoSeq).ok());
  EXPECT_EQ(next(*sampler, 0, {1}, 1), kNoToken);
}

TEST(Replay, accepts_drafts_that_equal_the_recording) {
  TestHost host;
  PluginInstance<Sampler> sampler("replay", host, {{"tokens", text("4 5 6 7")}});
  ASSERT_TRUE(sampler->begin(0, {}, kNoSeq).ok());
  const std::vector<TokenId> history = {1, 4, 5, 9};
  const TokenId drafts[] = {5, 9};
  SampleRow rows[3];
  for (uint32_t i = 0; i < 3; ++i) {
    rows[i].seq = 0;
    rows[i].vocabulary = 100;
    rows[i].prompt_tokens = 1;
    rows[i].history = std::span(history).first(2 + i);
  }
  SampleResult results[3];
  VerifyRows verify;
  verify.rows = rows;
  verify.drafts = drafts;
  VerifyResult out;
  out.tokens = results;
  ASSERT_TRUE(sampler->verify({&verify, 1}, {&out, 1}).ok());
  EXPECT_EQ(out.count, 2u);
  EXPECT_EQ(results[0].token, 5);
  EXPECT_EQ(results[1].token, 6);
}

TEST(Replay, walks_trees_of_drafts_along_the_recording) {
  TestHost host;
  PluginInstance<Sampler> sampler("replay", host, {{"tokens", text("4 5 6 7")}});
  ASSERT_TRUE(sampler->begin(0, {}, kNoSeq).ok());
  const std::vector<TokenId> known = {1, 4};
  const TokenId drafts[] = {9, 5, 6, 6};
  const int32_t parents[] = {-1, -1, 0, 1};
  SampleRow rows[5];
  for (SampleRow& row : rows) {
    row.seq = 0;
    row.vocabulary = 100;
    row.prompt_tokens = 1;
    row.history = known;
  }
  SampleResult results[5];
  uint32_t path[4];
  VerifyRows verify;
  verify.rows = rows;
  verify.drafts = drafts;
  verify.parents = parents;
  VerifyResult out;
  out.tokens = results;
  out.path = path;
  ASSERT_TRUE(sampler->verify({&verify, 1}, {&out, 1}).ok());
  ASSERT_EQ(out.count, 3u);
  EXPECT_EQ(results[2].token, 7);
  EXPECT_EQ(path[0], 1u);
  EXPECT_EQ(path[1], 3u);
  const std::vector<float> probs(400, 0.01f);
  verify.draft_probs = probs.data();
  EXPECT_EQ(sampler->verify({&verify, 1}, {&out, 1}).message(),
            "the drafts of sequence 0 form a tree and come with probabilities – trees are verified "
            "exactly; leave draft_probs out, or draft chains");
}

TEST(Replay, refuses_what_is_no_list_of_ids) {
  const PluginDescriptor* descriptor = find_descriptor("replay");
  alignas(16) std::byte options[64];
  descriptor->construct_options(options);
  const auto message = [&](std::string_view value) {
    descriptor->options[0].store(options, text(value));
    return std::string(descriptor->validate(options).message());
  };
  EXPECT_EQ(message("1 two 3"),
            "option tokens: 'two 3' at character 3 is no token id – write ids separated by spaces, "
            "recordings by ';'");
  EXPECT_EQ(message("1; ;2"),
            "option tokens: recording 2 is empty – each needs at least one token id");
  EXPECT_EQ(message("-4"),
            "option tokens: '-4' at character 1 is no token id – write ids separated by spaces, "
            "recordings by ';'");
  EXPECT_EQ(message("1,,2"),
            "option tokens: ',2' at character 3 is no token id – write ids separated by spaces, "
            "recordings by ';'");
  EXPECT_EQ(message("1, 2;\n3"), "");
}

}  // namespace
}  // namespace tenon
