// What a tokenizer.json may say, and how it is refused.
#include <gmock/gmock.h>

#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal_of_text(std::string_view text) {
  return std::string(Tokenizer::from_json(text, "t.json").status().message());
}

// The message for the tiny tokenizer with one member replaced.
std::string refusal_with(const char* pointer, const char* value) {
  auto document = tiny_json();
  document[json::json_pointer(pointer)] = json::parse(value);
  return refusal(document);
}

TEST(TokenizerJson, reads_merges_as_strings_and_as_pairs) {
  auto document = tiny_json();
  EXPECT_THAT(ids_of(*from_json(document), "abcab"), ElementsAre(6, 5));
  document["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "c"]])");
  EXPECT_THAT(ids_of(*from_json(document), "abcab"), ElementsAre(6, 5));
}

TEST(TokenizerJson, of_the_first_versions_needs_no_model_type) {
  auto document = tiny_json();
  document["model"].erase("type");
  document["model"]["merges"].insert(document["model"]["merges"].begin(), "#version: 0.2");
  EXPECT_THAT(ids_of(*from_json(document), "abc"), ElementsAre(6));
}

TEST(TokenizerJson, without_a_decoder_puts_spaces_between_tokens) {
  auto document = tiny_json();
  document.erase("decoder");
  EXPECT_EQ(*from_json(document)->decode(std::vector<TokenId>{5, 0, 6}), "ab a abc");
}

TEST(TokenizerJson, puts_special_tokens_around_the_text) {
  auto document = tiny_json();
  document["post_processor"] = json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel", "trim_offsets": true},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "d", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "?", "type_id": 0}}],
       "special_tokens": {"d": {"id": "d", "ids": [3]}, "?": {"id": "?", "ids": [7, 7]}}}]})");
  const auto tokenizer = from_json(document);
  EXPECT_THAT(ids_of(*tokenizer, "a"), ElementsAre(3, 0, 7, 7));
  EXPECT_THAT(ids_of(*tokenizer, "a", {.add_special = false}), ElementsAre(0));
  EXPECT_EQ(tokenizer->bos(), 3);
  EXPECT_EQ(tokenizer->eos(), 7);
}

TEST(TokenizerJson, says_what_kind_of_tokenizer_it_is) {
  EXPECT_EQ(fixture("llama3.json")->kind(), "byte-level bpe");
  EXPECT_EQ(fixture("llama2.json")->kind(), "sentencepiece bpe");
  EXPECT_EQ(from_json(tiny_json())->kind(), "bpe");
}

TEST(TokenizerJson, that_is_no_json_is_refused_with_the_place) {
  EXPECT_THAT(refusal_of_text(""), HasSubstr("t.json: not JSON at byte 1"));
  EXPECT_THAT(refusal_of_text("{\"model\": {\"vocab\": {\"a\": 0,"), HasSubstr("t.json: not JSON"));
  EXPECT_EQ(refusal_of_text("[1]"), "t.json: the document is no JSON object");
  EXPECT_EQ(refusal_of_text("{}"), "t.json: the document has no 'model'");
}

TEST(TokenizerJson, that_is_nested_deeply_is_refused_at_once) {
  EXPECT_EQ(refusal_of_text("{\"a\":" + std::string(20'000'000, '[')),
            "t.json: it is nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal_of_text(objects), "t.json: it is nested deeper than 64 levels");
}

TEST(TokenizerJson, with_a_million_values_beside_the_vocabulary_is_refused) {
  std::string numbers = "{\"a\":[0";
  for (int i = 0; i < 1'100'000; ++i) numbers += ",0";
  EXPECT_EQ(refusal_of_text(numbers + "]}"), "t.json: it has more than 1048576 values");
}

TEST(TokenizerJson, with_a_key_twice_is_refused) {
  EXPECT_EQ(refusal_of_text(R"({"a": 1, "b": {"c": 1, "c": 2}})"),
            "t.json: the key 'c' stands twice in one object");
  EXPECT_EQ(refusal_of_text(R"({"model": {"merges": [], "merges": []}})"),
            "t.json: the key 'merges' stands twice in one object");
}

TEST(TokenizerJson, of_another_model_is_refused_by_its_name) {
  EXPECT_EQ(refusal_of_text(R"({"model": {"vocab": [["a", -1.5], ["b", -2]], "type": "Unigram"}})"),
            "t.json: model.type is 'Unigram'; of the models only BPE is, which is not supported");
}

TEST(TokenizerJson, with_options_of_the_model_that_change_ids_is_refused) {
  EXPECT_EQ(refusal_with("/model/end_of_word_suffix", "\"</w>\""),
            "t.json: model.end_of_word_suffix is '</w>', which is not supported");
  EXPECT_EQ(refusal_with("/model/continuing_subword_prefix", "\"##\""),
            "t.json: model.continuing_subword_prefix is '##', which is not supported");
  EXPECT_EQ(refusal_with("/model/dropout", "0.1"),
            "t.json: model.dropout is not null: encoding would be random, which is not supported");
  EXPECT_EQ(refusal_with("/model/dropout", "0.0"), "");
}

TEST(TokenizerJson, with_a_damaged_vocabulary_is_refused) {
  EXPECT_EQ(refusal_with("/model/vocab", R"({"a": 0, "b": 0})"),
            "t.json: the id 0 is given to both 'a' and 'b'");
  EXPECT_EQ(refusal_with("/model/vocab", R"({"a": 0.5})"),
            "t.json: model.vocab is no object of pieces and ids");
  EXPECT_EQ(refusal_with("/model/vocab", R"({"a": {"b": 1}})"),
            "t.json: model.vocab is no object of pieces and ids");
  EXPECT_THAT(refusal_with("/model/vocab", R"({"a": 99999999999999999999})"), HasSubstr("model"));
  EXPECT_THAT(refusal_with("/model/vocab", R"({"a": 18446744073709551615})"),
              HasSubstr("has the id -1"));
}

TEST(TokenizerJson, with_damaged_merges_is_refused) {
  EXPECT_EQ(refusal_with("/model/merges/1", "\"a  b\""),
            "t.json: merge 2 is 'a  b'; expected two pieces with one space between them");
  EXPECT_EQ(refusal_with("/model/merges/1", "\"ab\""),
            "t.json: merge 2 is 'ab'; expected two pieces with one space between them");
  EXPECT_EQ(refusal_with("/model/merges/1", R"(["a", "b", "c"])"),
            "t.json: model.merges is no list of pairs");
  EXPECT_EQ(refusal_with("/model/merges/1", "7"), "t.json: model.merges is no list of pairs");
  EXPECT_EQ(refusal_with("/model/merges/1", "\"b a\""),
            "t.json: merge 2 joins 'b' and 'a', but the vocabulary has no piece 'ba'");
}

TEST(TokenizerJson, with_unknown_stages_is_refused_by_their_names) {
  EXPECT_EQ(refusal_with("/normalizer", R"({"type": "Sequence", "normalizers": [
                             {"type": "NFC"}, {"type": "Precompiled"}]})"),
            "t.json: normalizer.normalizers[1] is a normalizer of the type 'Precompiled', which is "
            "not supported");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "UnicodeScripts"})"),
            "t.json: pre_tokenizer is a pre-tokenizer of the type 'UnicodeScripts', which is not "
            "supported");
  EXPECT_EQ(refusal_with("/decoder", R"({"type": "WordPiece"})"),
            "t.json: decoder is a decoder of the type 'WordPiece', which is not supported");
  EXPECT_EQ(refusal_with("/post_processor", R"({"type": "Magic"})"),
            "t.json: post_processor is a post-processor of the type 'Magic', which is not "
            "supported");
  EXPECT_EQ(refusal_with("/version", "\"2.0\""),
            "t.json: version is '2.0', which is not supported");
}

TEST(TokenizerJson, with_stages_that_do_not_fit_is_refused) {
  EXPECT_EQ(refusal_with("/decoder", R"({"type": "Sequence", "decoders": [
                             {"type": "Fuse"}, {"type": "ByteFallback"}]})"),
            "t.json: decoder.decoders[1] is a 'ByteFallback' after the step that joins the "
            "tokens, which is not supported");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "Split", "behavior": "Sideways",
                             "pattern": {"String": " "}})"),
            "t.json: pre_tokenizer.behavior is 'Sideways', which is not supported");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "Split", "behavior": "Isolated",
                             "pattern": {"Regex": "(a"}})"),
            "t.json: pre_tokenizer.pattern.Regex: regular expression at byte 2: a group without "
            "its closing parenthesis");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "ByteLevel"})"),
            "t.json: pre_tokenizer has no 'add_prefix_space'");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "Digits", "individual_digits": 1})"),
            "t.json: pre_tokenizer.individual_digits is a number; expected true or false");
  EXPECT_EQ(refusal_with("/pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})"),
            "t.json: pre_tokenizer.replacement is 'ab'; expected one character");
  EXPECT_EQ(refusal_with("/normalizer", "[]"), "t.json: normalizer is a list; expected an object");
}

TEST(TokenizerJson, with_a_template_that_cannot_be_is_refused) {
  EXPECT_EQ(refusal_with("/post_processor", R"({"type": "TemplateProcessing", "single": [
                             {"SpecialToken": {"id": "z"}}, {"Sequence": {"id": "A"}}],
                             "special_tokens": {"z": {"ids": [99]}}})"),
            "t.json: post_processor.special_tokens.z.ids[0] names the token 99, which is outside "
            "of the vocabulary");
  EXPECT_EQ(refusal_with("/post_processor", R"({"type": "TemplateProcessing", "single": [],
                             "special_tokens": {}})"),
            "t.json: post_processor.single is a template without a text, which is not supported");
}

TEST(TokenizerJson, whose_expression_backtracks_without_end_fails_in_encode) {
  auto document = tiny_json();
  document["pre_tokenizer"] = json::parse(R"json({"type": "Split", "behavior": "Isolated",
      "pattern": {"Regex": "(?:a|a)*(?:b|c)"}})json");
  const auto tokenizer = from_json(document);
  const auto ids = tokenizer->encode(std::string(100, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(std::string(ids.status().message()),
              HasSubstr("it takes more steps than a text of this size may cost"));
}

}  // namespace
}  // namespace tenon
