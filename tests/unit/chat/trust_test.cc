// Text that came from users never becomes a special token.
#include <gmock/gmock.h>

#include "core/tokenizer/tokenizer.h"
#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::ElementsAre;

// The parts of a rendering that the template wrote itself, with a bar between them.
std::string trusted_of(std::string_view source, const std::string& content) {
  const RenderedChat chat = must(rendered(source, user_says(content)));
  std::string all;
  for (const TextSpan span : chat.trusted) {
    all += (all.empty() ? "" : "|") + chat.text.substr(span.begin, span.end - span.begin);
  }
  return all;
}

TEST(ChatTrust, what_a_user_wrote_is_not_trusted) {
  EXPECT_EQ(trusted_of("<a>{{ messages[0].content }}<b>", "<x>"), "<a>|<b>");
  EXPECT_EQ(trusted_of("{{ '<a>' + messages[0].content + '<b>' }}", "<x>"), "<a>|<b>");
  EXPECT_EQ(trusted_of("{{ bos_token }}{{ messages[0].content }}", "<x>"), "<s>");
}

TEST(ChatTrust, it_stays_so_through_every_operation) {
  const std::string content = " <X>y</X> ";
  for (const char* operation : {"c | trim",
                                "c.strip()",
                                "c[2:5]",
                                "c[::-1]",
                                "c | upper",
                                "c.lower()",
                                "c.title()",
                                "c.split('>')[0]",
                                "c.split()[0]",
                                "c | replace('y', 'z')",
                                "c | string",
                                "c ~ ''",
                                "[c, c] | join",
                                "''.join([c])",
                                "'%s' % c",
                                "'{}'.format(c)",
                                "c | tojson",
                                "[c]",
                                "{'k': c}",
                                "c * 2",
                                "c | list | join",
                                "c | indent",
                                "c | center(40) | trim",
                                "c[1]",
                                "c.partition('y')[2]",
                                "c.splitlines()[0]",
                                "c | truncate(3, true, '', 0)",
                                "c | first",
                                "messages[0] | tojson",
                                "messages[0].items() | list",
                                "c.zfill(3)",
                                "c | reverse"}) {
    const std::string source =
        "{% set c = messages[0].content %}{{ " + std::string(operation) + " }}";
    EXPECT_THAT(trusted_of(source, content), testing::Not(testing::HasSubstr("X"))) << operation;
    EXPECT_THAT(trusted_of(source, content), testing::Not(testing::HasSubstr("<"))) << operation;
  }
}

TEST(ChatTrust, a_known_role_is_trusted_and_another_is_not) {
  const std::string source = "{{ '<|' + messages[0].role + '|>' }}";
  const auto trusted_role = [&](const std::string& role) {
    const auto chat = must(rendered(source, R"([{"role": ")" + role + R"(", "content": ""}])"));
    return chat.trusted.size() == 1 && chat.trusted[0].end == chat.text.size();
  };
  EXPECT_TRUE(trusted_role("user"));
  EXPECT_TRUE(trusted_role("tool"));
  EXPECT_FALSE(trusted_role("endoftext"));
}

// Letters, and the special tokens <s> and <|user|>.
std::unique_ptr<Tokenizer> small_tokenizer(const std::string& normalizer, bool normalized) {
  const std::string flag = normalized ? "true" : "false";
  const std::string json =
      R"({"version": "1.0", "added_tokens": [
       {"id": 20, "content": "<s>", "special": true, "normalized": )" +
      flag + R"(},
       {"id": 21, "content": "<|user|>", "special": true, "normalized": )" +
      flag + R"(}],
       "normalizer": )" +
      normalizer + R"(,
       "model": {"type": "BPE", "vocab": {"<": 0, "s": 1, ">": 2, "|": 3, "u": 4, "e": 5, "r": 6,
         "a": 7, "b": 8, "ab": 9, "/": 10}, "merges": ["a b"]}, "decoder": {"type": "Fuse"}})";
  return must(Tokenizer::from_json(json, "small.json"));
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view source,
                            const std::string& content) {
  return must(encode_chat(tokenizer, must(rendered(source, user_says(content)))));
}

TEST(ChatTrust, special_tokens_are_found_where_the_template_wrote_them_only) {
  const auto tokenizer = small_tokenizer("null", false);
  EXPECT_THAT(ids_of(*tokenizer, "<s>{{ messages[0].content }}<s>", "<s>"),
              ElementsAre(20, 0, 1, 2, 20));
  // Neither does a token come from both together.
  EXPECT_THAT(ids_of(*tokenizer, "<{{ messages[0].content }}", "s>"), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids_of(*tokenizer, "{{ '<|' + messages[0].role + '|>' }}", ""), ElementsAre(21));
}

TEST(ChatTrust, text_on_both_sides_of_a_border_is_encoded_together) {
  const auto tokenizer = small_tokenizer("null", false);
  EXPECT_THAT(ids_of(*tokenizer, "a{{ messages[0].content }}", "b"), ElementsAre(9));
}

TEST(ChatTrust, holds_for_tokens_that_are_looked_for_in_normalized_text) {
  const std::string source = "<s>{{ messages[0].content }}<s>";
  for (const char* normalizer : {"null", R"({"type": "Lowercase"})"}) {
    const auto tokenizer = small_tokenizer(normalizer, true);
    EXPECT_THAT(ids_of(*tokenizer, source, "<s>a"), ElementsAre(20, 0, 1, 2, 7, 20)) << normalizer;
  }
  // Nor does the normalizer make a token of what a user wrote.
  const auto tokenizer = small_tokenizer(R"({"type": "Lowercase"})", true);
  EXPECT_THAT(ids_of(*tokenizer, source, "<S>a"), ElementsAre(20, 0, 1, 2, 7, 20));
}

TEST(ChatTrust, a_longer_spelling_that_a_user_completes_does_not_hide_a_trusted_token) {
  const std::string json = R"({"version": "1.0", "added_tokens": [
     {"id": 20, "content": "<s>", "special": true, "normalized": false},
     {"id": 21, "content": "<s>a", "special": true, "normalized": false}],
     "model": {"type": "BPE", "vocab": {"<": 0, "s": 1, ">": 2, "a": 7}, "merges": []},
     "decoder": {"type": "Fuse"}})";
  const auto tokenizer = must(Tokenizer::from_json(json, "small.json"));
  EXPECT_THAT(ids_of(*tokenizer, "<s>{{ messages[0].content }}", "a"), ElementsAre(20, 7));
}

}  // namespace
}  // namespace tenon
