#include "core/workload/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

class PromptsTest : public testing::Test {
 protected:
  std::vector<Prompt> prompts_of(const std::string& name, const std::string& text) {
    const auto read = read_prompt_file(folder_.write_file(name, text));
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? *read : std::vector<Prompt>();
  }
  std::string error_of(const std::string& line) {
    const auto read =
        read_prompt_file(folder_.write_file("p.jsonl", "{\"prompt\":\"a\"}\n" + line));
    return read.ok() ? "" : std::string(read.status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(PromptsTest, a_text_file_has_a_prompt_a_line) {
  const auto prompts = prompts_of("p.txt", "one\r\n\n{\"prompt\": \"two\"}\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "{\"prompt\": \"two\"}");
}

TEST_F(PromptsTest, a_line_of_json_has_text_or_ids_and_settings) {
  const auto prompts = prompts_of(
      "p.jsonl",
      "{\"prompt\": \"one\", \"max_tokens\": 5}\n{\"prompt\": [1, 2], \"temperature\": 0.5}\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].answer.max_tokens, 5u);
  ASSERT_TRUE(prompts[1].tokens.has_value());
  EXPECT_EQ(*prompts[1].tokens, (std::vector<TokenId>{1, 2}));
}

TEST_F(PromptsTest, a_schema_keeps_the_order_of_its_members) {
  const auto prompts = prompts_of("p.jsonl", R"({"prompt": "a", "json_schema": {"z": 1, "a": 2}})"
                                             "\n");
  ASSERT_EQ(prompts.size(), 1u);
  ASSERT_TRUE(prompts[0].grammar.has_value());
  EXPECT_EQ(prompts[0].grammar->kind, grammar::GrammarKind::json_schema);
  EXPECT_EQ(prompts[0].grammar->text, R"({"z":1,"a":2})");
}

TEST_F(PromptsTest, a_json_object_that_is_not_wanted_is_no_grammar) {
  const auto prompts = prompts_of("p.jsonl", R"({"prompt": "a", "json_object": false})");
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_FALSE(prompts[0].grammar.has_value());
}

TEST_F(PromptsTest, faults_name_the_line) {
  EXPECT_THAT(error_of("nonsense"), HasSubstr("p.jsonl:2: not a JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("p.jsonl:2: there is no \"prompt\""));
  EXPECT_THAT(error_of(R"({"prompt": [1, "b"]})"), HasSubstr("a text or a list of token ids"));
  EXPECT_THAT(error_of(R"({"prompt": "a", "prompt": "b"})"), HasSubstr("stands there twice"));
  EXPECT_THAT(error_of(R"({"prompt": "a", "regex": "a", "grammar": "b"})"),
              HasSubstr("exclude each other"));
  EXPECT_THAT(error_of(R"({"prompt": "a", "promt": "b"})"), HasSubstr("promt"));
}

TEST_F(PromptsTest, a_mark_of_the_encoding_is_no_text) {
  const auto prompts = read_prompt_file(folder_.write_file("p.txt", "\xEF\xBB\xBFone\r\ntwo\n"));
  ASSERT_TRUE(prompts.ok());
  EXPECT_EQ(prompts->at(0).text, "one");
  const auto wide = read_prompt_file(folder_.write_file("p.txt", std::string("\xFF\xFEo\0n\0", 6)));
  EXPECT_THAT(wide.status().message(), testing::HasSubstr("p.txt' is text in UTF-16"));
}

TEST_F(PromptsTest, a_file_without_prompts_is_refused) {
  const auto read = read_prompt_file(folder_.write_file("p.txt", "\n\n"));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("has no prompts"));
}

}  // namespace
}  // namespace tenon
