#include <gmock/gmock.h>

#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The tiny tokenizer with an added token and the flags given as JSON members.
std::unique_ptr<Tokenizer> with_token(const std::string& flags, const std::string& content = "<x>",
                                      TokenId id = 8) {
  auto document = tiny_json();
  auto token = nlohmann::json::parse("{" + flags + "}");
  token["id"] = id;
  token["content"] = content;
  document["added_tokens"].push_back(token);
  return from_json(document);
}

TEST(AddedTokens, are_found_inside_of_words) {
  const auto tokenizer = with_token("");
  EXPECT_THAT(ids_of(*tokenizer, "ab<x>c"), ElementsAre(5, 8, 2));
  EXPECT_EQ(tokenizer->vocab_size(), 9u);
  EXPECT_EQ(tokenizer->piece(8), "<x>");
  EXPECT_EQ(tokenizer->find("<x>"), 8);
}

TEST(AddedTokens, that_are_special_are_text_where_the_caller_says_so) {
  const auto tokenizer = with_token(R"("special": true)", "ab", 5);
  EXPECT_TRUE(tokenizer->is_special(5));
  EXPECT_THAT(ids_of(*tokenizer, "abc"), ElementsAre(5, 2));
  EXPECT_THAT(ids_of(*tokenizer, "abc", {.parse_special = false}), ElementsAre(6));
  EXPECT_EQ(*tokenizer->decode(std::vector<TokenId>{5, 2}), "c");
}

TEST(AddedTokens, take_the_whitespace_beside_them) {
  EXPECT_THAT(ids_of(*with_token(R"("lstrip": true)"), "a  <x> a"), ElementsAre(0, 8, 4, 0));
  EXPECT_THAT(ids_of(*with_token(R"("rstrip": true)"), "a <x>  a"), ElementsAre(0, 4, 8, 0));
  EXPECT_THAT(ids_of(*with_token(R"("lstrip": true, "rstrip": true)"), " <x>  <x> "),
              ElementsAre(8, 8));
}

TEST(AddedTokens, that_are_single_words_are_not_found_in_others) {
  const auto tokenizer = with_token(R"("single_word": true)", "ab", 5);
  EXPECT_THAT(ids_of(*tokenizer, "abc ab\xC3\xA9 ab,ab"), ElementsAre(6, 4, 5, 4, 5, 5));
}

TEST(AddedTokens, prefer_the_longest_spelling) {
  auto document = tiny_json();
  document["added_tokens"] = nlohmann::json::parse(
      R"([{"id": 8, "content": "aa"}, {"id": 9, "content": "aaa"}, {"id": 10, "content": "aad"}])");
  const auto tokenizer = from_json(document);
  EXPECT_THAT(ids_of(*tokenizer, "aaaaaaadaad"), ElementsAre(9, 9, 0, 3, 10));
}

TEST(AddedTokens, that_are_normalized_are_looked_for_behind_the_normalizer) {
  auto document = tiny_json();
  document["normalizer"] = {{"type", "Lowercase"}};
  document["added_tokens"] = nlohmann::json::parse(
      R"([{"id": 8, "content": "<X>", "normalized": true},
          {"id": 9, "content": "<Y>", "normalized": false}])");
  const auto tokenizer = from_json(document);
  EXPECT_THAT(ids_of(*tokenizer, "a<x><X><Y>a"), ElementsAre(0, 8, 8, 9, 0));
  EXPECT_THAT(ids_of(*tokenizer, "<y>"), ElementsAre());
}

TEST(AddedTokens, with_stripping_walk_long_whitespace_once) {
  auto document = tiny_json();
  document["added_tokens"] =
      nlohmann::json::parse(R"([{"id": 8, "content": "\n", "lstrip": true, "rstrip": true}])");
  const auto tokenizer = from_json(document);
  EXPECT_THAT(ids_of(*tokenizer, "a" + std::string(1'000'000, '\n') + "b"), ElementsAre(0, 8, 1));
}

TEST(AddedTokens, that_contradict_the_vocabulary_are_refused) {
  const auto message = [](const char* tokens) {
    auto document = tiny_json();
    document["added_tokens"] = nlohmann::json::parse(tokens);
    return refusal(document);
  };
  EXPECT_EQ(message(R"([{"id": 3, "content": "<x>"}])"),
            "t.json: added token '<x>' has the id 3, which the vocabulary gives to 'd'");
  EXPECT_EQ(message(R"([{"id": 9, "content": "ab"}])"),
            "t.json: added token 'ab' has the id 9, but in the vocabulary the id 5");
  EXPECT_EQ(message(R"([{"id": 8, "content": "x"}, {"id": 8, "content": "y"}])"),
            "t.json: added token 'y' has the id 8, which 'x' has already");
  EXPECT_EQ(message(R"([{"id": 8, "content": "x"}, {"id": 9, "content": "x"}])"),
            "t.json: added token 'x' has both the ids 8 and 9");
  EXPECT_EQ(message(R"([{"id": 8, "content": ""}])"), "t.json: the added token with id 8 is empty");
  EXPECT_THAT(message(R"([{"id": 2147483647, "content": "x"}])"),
              HasSubstr("added token 'x' has the id 2147483647; for this vocabulary"));
}

TEST(AddedTokens, of_absurd_length_are_refused) {
  auto document = tiny_json();
  document["added_tokens"] = {{{"id", 8}, {"content", std::string(2000, 'a')}}};
  EXPECT_THAT(refusal(document), HasSubstr("has 2000 bytes: at most 1024 are supported"));
}

}  // namespace
}  // namespace tenon
