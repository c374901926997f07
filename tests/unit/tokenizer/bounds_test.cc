// What stages may make of a text, and how long they may take over it.
#include <gmock/gmock.h>

#include "core/tokenizer/allowance.h"
#include "core/tokenizer/models/sentencepiece.h"
#include "core/tokenizer/stages/pattern.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

json replace(const json& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

json sequence(const char* key, const json& stage, size_t count) {
  json stages = json::array();
  for (size_t i = 0; i < count; ++i) stages.push_back(stage);
  return {{"type", "Sequence"}, {key, stages}};
}

// The message with which a text is refused; empty when it is not.
std::string encode_refusal(const json& document, std::string_view text) {
  const auto tokenizer = from_json(document);
  return std::string(tokenizer->encode(text).status().message());
}

TEST(Growth, of_replacements_is_refused_with_the_stage_that_makes_too_much) {
  for (const auto& [pattern, content] : {std::pair{json{{"String", "a"}}, "aa"},
                                         {json{{"Regex", ""}}, "ab"},
                                         {json{{"Regex", "."}}, "abcd"},
                                         {json{{"String", ""}}, "a"}}) {
    auto document = tiny_json();
    document["normalizer"] = sequence("normalizers", replace(pattern, content), 30);
    const std::string message = encode_refusal(document, "a");
    EXPECT_THAT(message, StartsWith("normalizer.normalizers["));
    EXPECT_THAT(message, HasSubstr("] (Replace): a text of 1 bytes grows beyond 65568, the most"));
  }
}

TEST(Growth, of_the_byte_level_alphabet_is_refused) {
  auto document = tiny_json();
  document["normalizer"] = sequence("normalizers", {{"type", "ByteLevel"}}, 40);
  EXPECT_THAT(encode_refusal(document, "\xC3\xA9"), HasSubstr("(ByteLevel): a text of 2 bytes"));
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] =
      sequence("pretokenizers",
               {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}, 40);
  EXPECT_THAT(encode_refusal(document, "\xC3\xA9"), StartsWith("pre_tokenizer.pretokenizers["));
}

TEST(Growth, by_what_is_put_in_front_is_refused_and_counted_over_all_parts_of_a_text) {
  auto document = tiny_json();
  document["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(70'000, 'a')}};
  EXPECT_THAT(encode_refusal(document, "b"), HasSubstr("normalizer (Prepend): a text of 1 bytes"));
  document["normalizer"]["prepend"] = std::string(4000, 'a');
  document["added_tokens"].push_back({{"id", 9}, {"content", "|"}, {"special", true}});
  EXPECT_EQ(encode_refusal(document, "b|b|b"), "");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "b|";
  EXPECT_THAT(encode_refusal(document, text), HasSubstr("a text of 2000 bytes grows beyond"));
}

TEST(Growth, that_shrinks_again_is_counted_in_all) {
  auto document = tiny_json();
  json stages = json::array();
  for (int i = 0; i < 20; ++i) {
    stages.push_back(replace({{"String", "a"}}, std::string(60'000, 'a')));
    stages.push_back(replace({{"Regex", "a+"}}, "a"));
  }
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", stages}};
  EXPECT_THAT(encode_refusal(document, "a"), HasSubstr("grows beyond 1049088 over all stages"));
}

TEST(Growth, of_one_token_in_the_decoder_is_refused_when_the_tokenizer_is_loaded) {
  auto document = tiny_json();
  document["decoder"] = sequence("decoders", replace({{"String", "a"}}, "aa"), 30);
  EXPECT_THAT(refusal(document),
              StartsWith("t.json: token 0: decoder.decoders[10] (Replace): a text of 1 bytes grows "
                         "beyond 1032, the most that is supported"));
  document["decoder"] = sequence("decoders", replace({{"Regex", ""}}, "ab"), 30);
  EXPECT_THAT(refusal(document), HasSubstr("(Replace): a text of 1 bytes grows beyond 1032"));
}

TEST(Growth, that_real_decoders_have_is_allowed) {
  auto document = tiny_json();
  document["decoder"] = {{"type", "Sequence"},
                         {"decoders",
                          {replace({{"String", "a"}}, "<letter a>"),
                           replace({{"Regex", "b+$"}}, "\n\n"),
                           {{"type", "Fuse"}}}}};
  EXPECT_EQ(*from_json(document)->decode(std::vector<TokenId>{0, 1, 5}),
            "<letter a>\n\n<letter a>\n\n");
}

TEST(Growth, of_the_characters_that_unicode_expands_most_is_allowed) {
  auto document = json::parse(read_file(data_path("gpt2.json")));
  document["normalizer"] = {{"type", "NFKC"}};
  const auto tokenizer = from_json(document);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\xEF\xB7\xBA";  // U+FDFA: 18 characters in 33 bytes
  EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, text))->size(), 20'000u * 33);
}

TEST(Growth, by_a_character_map_is_refused) {
  tok::SentencePieceModel model;
  model.pieces = {{"<unk>", 0, tok::PieceType::unknown}, {"a", -1, tok::PieceType::normal}};
  // A trie of one key, "a": the root leads to the unit 'a', which has a leaf.
  const uint32_t units[] = {1u << 10, 0, 0, 0};
  std::vector<uint32_t> trie(256, 0);
  trie[0] = units[0];
  trie[1 ^ 'a'] = 'a' | 1u << 8 | 2u << 10;
  trie[1 ^ 'a' ^ 2] = 1u << 31;
  model.charsmap = std::string("\x00\x04\x00\x00", 4);
  model.charsmap.append(reinterpret_cast<const char*>(trie.data()), 1024);
  model.charsmap += std::string(100'000, 'a') + std::string(1, '\0');
  const auto tokenizer = Tokenizer::from_parts(must(tok::make_sentencepiece(model)));
  EXPECT_THAT(std::string(tokenizer->encode("a").status().message()),
              StartsWith("the normalization of the SentencePiece model: a text of 1 bytes grows"));
}

TEST(Time, in_a_character_map_that_leads_in_circles_is_bounded) {
  tok::SentencePieceModel model;
  model.pieces = {{"<unk>", 0, tok::PieceType::unknown}, {"a", -1, tok::PieceType::normal}};
  std::vector<uint32_t> trie(256, 0);
  trie[0] = 1u << 10;
  trie[1 ^ 'a'] = 'a' | static_cast<uint32_t>('a') << 10;  // leads to 1, where "a" leads here again
  model.charsmap = std::string("\x00\x04\x00\x00", 4);
  model.charsmap.append(reinterpret_cast<const char*>(trie.data()), 1024);
  const auto tokenizer = Tokenizer::from_parts(must(tok::make_sentencepiece(model)));
  EXPECT_EQ(ids_of(*tokenizer, std::string(100'000, 'a')).size(), 100'001u);
}

TEST(Stages, beyond_a_count_are_refused) {
  for (const auto& [member, key, stage] :
       {std::tuple{"normalizer", "normalizers", json{{"type", "NFC"}}},
        {"pre_tokenizer", "pretokenizers", json{{"type", "Whitespace"}}},
        {"decoder", "decoders", json{{"type", "ByteFallback"}}}}) {
    auto document = tiny_json();
    document[member] = sequence(key, stage, tok::kMostStages);
    EXPECT_EQ(refusal(document), "");
    document[member] = sequence(key, stage, tok::kMostStages + 1);
    EXPECT_THAT(refusal(document), HasSubstr("has more than 64 stages, which is the most"));
  }
}

TEST(Stages, nested_without_end_are_refused) {
  const std::string head = tiny_json().dump();
  const std::string open = R"({"type":"Sequence","normalizers":[)";
  std::string document = head.substr(0, head.size() - 1) + R"(,"normalizer":)";
  for (int i = 0; i < 100'000; ++i) document += open;
  const auto tokenizer = Tokenizer::from_json(document, "t.json");
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr("t.json: it is nested deeper than 64 levels"));
}

TEST(Stages, that_put_more_tokens_around_a_text_than_sense_are_refused) {
  auto document = tiny_json();
  json ids = json::array(), single = json::array();
  for (int i = 0; i < 2'000; ++i) ids.push_back(1);
  for (int i = 0; i < 20'000; ++i)
    single.push_back({{"SpecialToken", {{"id", "b"}, {"type_id", 0}}}});
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", single},
                                {"special_tokens", {{"b", {{"id", "b"}, {"ids", ids}}}}}};
  EXPECT_THAT(refusal(document), HasSubstr("puts more than 1024 tokens around a text"));
}

TEST(Pieces, longer_than_any_in_use_are_refused) {
  auto document = tiny_json();
  document["model"]["vocab"][std::string(5000, 'd')] = 8;
  EXPECT_THAT(refusal(document),
              HasSubstr("the piece with id 8 has 5000 bytes: at most 4096 are supported"));
}

// Patterns that take quadratic or exponential time somewhere in a run of 'a'.
class SlowPattern : public testing::TestWithParam<const char*> {};

TEST_P(SlowPattern, is_given_up_in_time) {
  const auto regex = tok::Regex::compile(GetParam());
  ASSERT_TRUE(regex.ok()) << regex.status().message();
  const std::string text = std::string(300'000, 'a') + "b";
  tok::Allowance allowance(text.size());
  std::vector<tok::Span> spans;
  const Status status = regex->find_all(text, allowance, spans);
  EXPECT_FALSE(status.ok());
}

// A class in the end: a literal that the text lacks would be noticed beforehand.
INSTANTIATE_TEST_SUITE_P(Regex, SlowPattern,
                         testing::Values("(?:[^z]*[xy]|[^z]*[uv])", "c|[^z]*+[xy]", "(?:a+)+[cd]",
                                         "a(?=[^z]*[xy])", "(?:a|a){30}[cd]", "(?:a?){25}a{25}[cd]",
                                         "(?:(?=[^z]*+[xy])?+a)*[cd]", "a{9000,}[cd]",
                                         "a(?=a*?[cd])", "(?>a*)[cd]|(?:ab*)*+[cd]", "[ab]+[cd]|e",
                                         "(?:a{2}){3}+[cd]|a+[de]", "(?<=a{3})a*[cd]",
                                         "(?:a*)+[cd]", "(?:a{2,}+)+[cd]", "(?:|a|b){40}[cd]"));

// Patterns of real tokenizers that walk runs of whitespace or letters back and forth.
TEST(FastPattern, costs_no_more_than_a_text_has) {
  for (const char* pattern :
       {R"(\s+$)", R"(\s*[\r\n]+|\s+(?!\S)|\s+)", R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+)",
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lo}]*[\p{Ll}\p{Lo}]+|[\p{Lu}\p{Lo}]+[\p{Ll}\p{Lo}]*|\s+)"}) {
    const auto regex = tok::Regex::compile(pattern);
    ASSERT_TRUE(regex.ok());
    for (const char* unit : {" ", "\n", " \n", "a", "A", "Aa", "\xE6\xBC\xA2"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      text += "5x 5";
      tok::Allowance allowance(text.size());
      std::vector<tok::Span> spans;
      EXPECT_TRUE(regex->find_all(text, allowance, spans).ok()) << pattern << unit;
    }
  }
}

TEST(Regex, knows_where_the_search_starts_also_after_trying_again) {
  const auto regex = tok::Regex::compile(R"(\Ga|b(?:c|d|e)*f|\Gb)");
  ASSERT_TRUE(regex.ok());
  const std::string text = "aab" + std::string(5000, 'c') + "a";
  tok::Allowance allowance(text.size());
  std::vector<tok::Span> spans;
  ASSERT_TRUE(regex->find_all(text, allowance, spans).ok());
  EXPECT_EQ(spans, (std::vector<tok::Span>{{0, 1}, {1, 2}, {2, 3}}));
}

TEST(Time, over_one_word_of_ten_megabytes_is_not_quadratic) {
  const auto tokenizer = fixture("spm_llama.model");
  std::string word(10'000'000, 'a');
  for (size_t i = 0; i < word.size(); ++i) word[i] = static_cast<char>('a' + (i * i >> 3) % 7);
  EXPECT_GT(ids_of(*tokenizer, word).size(), word.size() / 16);
}

}  // namespace
}  // namespace tenon
