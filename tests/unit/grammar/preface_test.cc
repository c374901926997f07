#include <gtest/gtest.h>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

std::shared_ptr<const Grammar> behind(const Preface& preface, GrammarKind kind,
                                      std::string_view text) {
  GrammarSpec spec{kind, std::string(text)};
  spec.preface = preface;
  const auto grammar = compile(spec);
  EXPECT_TRUE(grammar.ok()) << std::string(grammar.status().message());
  return grammar.ok() ? *grammar : nullptr;
}

TEST(Preface, that_has_begun_is_any_text_up_to_its_end) {
  const auto grammar = behind({"", "</think>"}, GrammarKind::regex, "[0-9]+");
  for (const char* text : {"</think>1", "hm </think>12", "a < b </think>\n\n7", "<<</think>7",
                           "</</think>7", "<</</thin</think> 7", "ä\xff\xfe</think>7"}) {
    const bool has_special = std::string_view(text).find('\xff') != std::string_view::npos;
    EXPECT_EQ(matches(*grammar, text), !has_special) << text;
  }
  // The form does not begin before, and the end comes once.
  for (const char* text : {"7", "hm 7", "hm </think>", "hm </think>x", "</think>7</think>7",
                           "</think>\n\n\n\n\n\n\n\n\n7"}) {
    EXPECT_FALSE(matches(*grammar, text)) << text;
  }
}

TEST(Preface, that_the_model_begins_may_be_left_out) {
  const auto grammar = behind({"<think>", "</think>"}, GrammarKind::json_object, "");
  for (const char* text : {"{}", "<think></think>{}", "<think>{\"a</think>\n{\"a\": 1}"}) {
    EXPECT_TRUE(matches(*grammar, text)) << text;
  }
  for (const char* text : {"hm</think>{}", "<think>{}", "<think>", "{}</think>{}"}) {
    EXPECT_FALSE(matches(*grammar, text)) << text;
  }
}

TEST(Preface, ends_with_a_marker_that_contains_its_own_beginning) {
  const auto grammar = behind({"", "aabaaa"}, GrammarKind::regex, "x");
  for (const char* text : {"aabaaax", "aabaabaaax", "aaaabaaax", "aabaaaabaaax"}) {
    EXPECT_EQ(matches(*grammar, text),
              std::string_view(text).find("aabaaa") + 7 == std::string_view(text).size())
        << text;
  }
}

TEST(Preface, ends_with_a_special_token_and_not_with_its_text) {
  const TokenId end = 256, thought = 257, other = 258;
  const auto vocabulary = byte_vocabulary({"", special_bytes("[/THINK]"), special_bytes("[INST]")});
  Matcher matcher(behind({"", special_bytes("[/THINK]")}, GrammarKind::regex, "ab"), vocabulary,
                  {end});
  const auto allowed = [&] { return mask_of(matcher, *vocabulary); };
  const std::string_view text = "so [/THINK] ab";
  for (const char c : text) {
    EXPECT_TRUE(is_set(allowed(), static_cast<uint8_t>(c)));
    ASSERT_TRUE(matcher.accept(static_cast<uint8_t>(c)));
  }
  // Nothing ends in the middle of a thought.
  EXPECT_FALSE(is_set(allowed(), end));
  EXPECT_FALSE(is_set(allowed(), other));
  EXPECT_TRUE(is_set(allowed(), thought));
  ASSERT_TRUE(matcher.accept(thought));
  EXPECT_TRUE(is_set(allowed(), 'a'));
  EXPECT_FALSE(is_set(allowed(), 'x'));
  EXPECT_FALSE(is_set(allowed(), thought));
  ASSERT_TRUE(matcher.accept('a'));
  matcher.rollback(2);
  EXPECT_TRUE(is_set(allowed(), 'x'));
  for (const TokenId token : {thought, TokenId{'a'}, TokenId{'b'}}) {
    ASSERT_TRUE(matcher.accept(token));
  }
  EXPECT_TRUE(is_set(allowed(), end));
}

TEST(SpecialBytes, stand_in_no_text_of_a_form) {
  const TokenId special = 256;
  const auto vocabulary = byte_vocabulary({special_bytes("[INST]")});
  for (const auto& [kind, text] : {std::pair{GrammarKind::regex, "[^x]*"},
                                   {GrammarKind::gbnf, "root ::= .*"},
                                   {GrammarKind::gbnf, "root ::= [^\"]*"}}) {
    Matcher matcher(compiled(kind, text), vocabulary, {});
    EXPECT_FALSE(is_set(mask_of(matcher, *vocabulary), special)) << text;
    EXPECT_FALSE(matcher.accept(special)) << text;
  }
}

}  // namespace
}  // namespace tenon::grammar
