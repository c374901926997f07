#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/model/checkpoint/generation_defaults.h"

namespace tenon {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(GenerationConfig, absent_members_stay_absent) {
  const auto defaults = parse_generation_config("{}", "g.json");
  ASSERT_TRUE(defaults.ok());
  EXPECT_THAT(defaults->sampling, Each(Eq(std::nullopt)));
  EXPECT_FALSE(defaults->max_tokens || defaults->min_tokens || defaults->length_penalty);
  EXPECT_THAT(defaults->eos, IsEmpty());
  EXPECT_THAT(defaults->unused, IsEmpty());
}

TEST(GenerationConfig, recommendations_are_read) {
  const auto defaults = parse_generation_config(
      R"({"do_sample":true,"temperature":0.7,"top_p":0.8,"top_k":20,"eos_token_id":[5,6]})", "g");
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->value("temperature"), 0.7);
  EXPECT_EQ(defaults->value("top_p"), 0.8);
  EXPECT_EQ(defaults->value("top_k"), 20);
  EXPECT_THAT(defaults->eos, ElementsAre(5, 6));
}

TEST(GenerationConfig, no_sampling_means_temperature_zero) {
  const auto defaults = parse_generation_config(R"({"do_sample":false,"temperature":0.7})", "g");
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->value("temperature"), 0.0);
}

TEST(GenerationConfig, all_that_the_sampler_can_do_is_read_with_the_key_that_said_it) {
  const auto defaults = parse_generation_config(
      R"({"do_sample":false,"repetition_penalty":1.05,"min_p":0.1,"typical_p":0.9,
          "presence_penalty":1.5,"max_new_tokens":64,"min_new_tokens":2,"length_penalty":0.5,
          "early_stopping":true,"suppress_tokens":[3],"bad_words_ids":[[1,2]],
          "stop_strings":["END"]})",
      "g");
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->value("temperature"), 0.0);  // penalties count all the same
  EXPECT_EQ(defaults->value("repetition_penalty"), 1.05);
  EXPECT_EQ(defaults->value("min_p"), 0.1);
  EXPECT_EQ(defaults->value("typical_p"), 0.9);
  EXPECT_EQ(defaults->value("presence_penalty"), 1.5);
  EXPECT_EQ(defaults->max_tokens, 64u);
  EXPECT_EQ(defaults->min_tokens, 2u);
  EXPECT_EQ(defaults->length_penalty, 0.5);
  EXPECT_EQ(defaults->early_stopping, "true");
  EXPECT_THAT(defaults->bad_words, ElementsAre(ElementsAre(3), ElementsAre(1, 2)));
  EXPECT_THAT(defaults->stop, ElementsAre("END"));
  EXPECT_THAT(defaults->unused, IsEmpty());
  EXPECT_EQ(defaults->said_by.at("temperature"), "do_sample");
  EXPECT_EQ(defaults->said_by.at("max_tokens"), "max_new_tokens");
}

TEST(GenerationConfig, what_nothing_follows_is_listed_by_its_key) {
  const auto defaults = parse_generation_config(
      R"({"no_repeat_ngram_size":3,"eta_cutoff":0.001,"begin_suppress_tokens":[7],
          "forced_eos_token_id":2,"num_beams":4})",
      "g");
  ASSERT_TRUE(defaults.ok());
  EXPECT_THAT(defaults->unused,
              UnorderedElementsAre("no_repeat_ngram_size", "eta_cutoff", "begin_suppress_tokens",
                                   "forced_eos_token_id", "num_beams"));
}

TEST(GenerationConfig, values_that_ask_for_nothing_are_no_word_worth) {
  const auto defaults = parse_generation_config(
      R"({"no_repeat_ngram_size":0,"eta_cutoff":0.0,"epsilon_cutoff":0,"num_beams":1,
          "begin_suppress_tokens":null,"forced_eos_token_id":null,"sequence_bias":null,
          "diversity_penalty":0.0,"length_penalty":1.0,"early_stopping":false,"min_length":0,
          "max_length":20,"renormalize_logits":false,"encoder_repetition_penalty":1.0,
          "bad_words_ids":null,"suppress_tokens":[],"top_k":-1})",
      "g");
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_THAT(defaults->unused, IsEmpty());
  EXPECT_THAT(defaults->bad_words, IsEmpty());
  EXPECT_FALSE(defaults->length_penalty || defaults->early_stopping || defaults->max_length);
  EXPECT_EQ(defaults->value("top_k"), 0);
}

TEST(GenerationConfig, without_draws_what_narrows_them_says_nothing) {
  const auto defaults =
      parse_generation_config(R"({"do_sample":false,"eta_cutoff":0.1,"epsilon_cutoff":0.2})", "g");
  ASSERT_TRUE(defaults.ok());
  EXPECT_THAT(defaults->unused, IsEmpty());
}

TEST(GenerationConfig, values_out_of_range_are_refused) {
  const auto message = [](const std::string& text) {
    return std::string(parse_generation_config(text, "g.json").status().message());
  };
  EXPECT_EQ(message(R"({"top_p":1.5})"),
            "g.json: 'top_p' is 1.5; expected a number above 0.0 and at most 1.0");
  EXPECT_THAT(message(R"({"min_p":2})"), HasSubstr("'min_p' is 2; expected a number from 0.0"));
  EXPECT_THAT(message(R"({"repetition_penalty":0})"), HasSubstr("'repetition_penalty' is 0"));
  EXPECT_THAT(message(R"({"bad_words_ids":[3]})"), HasSubstr("'bad_words_ids' is not a list"));
  EXPECT_THAT(message(R"({"temperature":-1})"), HasSubstr("'temperature' is -1"));
  EXPECT_THAT(message(R"({"top_k":-2})"), HasSubstr("'top_k' is -2"));
  EXPECT_THAT(message(R"({"temperature":"hot"})"), HasSubstr("expected a number"));
}

}  // namespace
}  // namespace tenon
