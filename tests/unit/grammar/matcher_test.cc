#include "core/grammar/matcher.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/unit/grammar/grammar_testing.h"
#include "tests/unit/grammar/tiny_validator.h"

namespace tenon::grammar {
namespace {

// Tokens of all kinds: plain ones of every length, parts of characters, structure, nothing.
std::shared_ptr<const Vocabulary> mixed_vocabulary() {
  static const std::shared_ptr<const Vocabulary> kVocabulary = [] {
    std::vector<std::string> more = {"",         "",    "{\"",     "\": ", "\",",  "\": \"", "\"}",
                                     "}}",       "[[",  "]]",      ", ",   ",\n",  "\n  ",   "true",
                                     "null",     "\\n", "\\u00",   "ä",    "\xc3", "\xa4x",  "😀",
                                     "\xf0\x9f", "a\"", "ab\": 1", "12",   "-1",   ".5",     "e+1"};
    std::mt19937 random(3);
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (size_t length = 1 + random() % 40; length > 0; --length) {
        text += std::vector<std::string>{"a", "b", "c", " ", "ä", "1"}[random() % 6];
      }
      more.push_back(text);
    }
    return byte_vocabulary(more);
  }();
  return kVocabulary;
}

// Many short words, so that runs of characters are worth while; few tokens of other kinds.
std::shared_ptr<const Vocabulary> wordy_vocabulary() {
  static const std::shared_ptr<const Vocabulary> kVocabulary = [] {
    std::vector<std::string> more = {
        "",          "\"}",     "\",", "a\"",  "e@e", ".net",  "ab.", "x,y",   "\xc3", "\xa4x",
        "n\xf0\x9f", " ",       "  a", " a b", " é",  " \xc3", " \"", "\\n",   "\\u0", "😀tea",
        "A1b",       "teNet_s", "-t",  "_a",   "e-",  "\n  ",  "0x",  "tone\""};
    std::mt19937 random(4);
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      const size_t length = 1 + (i % 100 == 0 ? 12 + random() % 12 : random() % 9);
      if (random() % 2 == 0) text = " ";
      for (size_t at = 0; at < length; ++at) {
        const bool is_other = random() % 12 == 0;
        text += is_other
                    ? std::vector<std::string>{"ä", "é", "的", "7", "0", "_", "T"}[random() % 7]
                    : std::string(1, "etaoinshrdluabcf"[random() % 16]);
      }
      more.push_back(text);
    }
    return byte_vocabulary(more);
  }();
  return kVocabulary;
}

const TokenId kEnd = 256;  // without bytes

Matcher matcher_of(GrammarKind kind, std::string_view text) {
  return Matcher(compiled(kind, text), mixed_vocabulary(), {kEnd});
}

const std::string kRecord =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":30},)"
    R"("tags":{"type":"array","items":{"type":"string"},"maxItems":3},)"
    R"("more":{"$ref":"#"},"n":{"type":"integer","minimum":-5,"maximum":120}},)"
    R"("required":["name","n"],"additionalProperties":false})";

TokenId draw(const std::vector<uint64_t>& mask, std::mt19937& random) {
  std::vector<TokenId> allowed;
  for (TokenId token = 0; token < static_cast<TokenId>(mask.size() * 64); ++token) {
    if (is_set(mask, token)) allowed.push_back(token);
  }
  if (allowed.empty()) return kNoToken;
  return allowed[random() % allowed.size()];
}

// The mask is exactly the tokens after which something can still follow, or the text is whole.
void expect_exact(const Grammar& grammar, const Vocabulary& vocabulary, const std::string& so_far,
                  const std::vector<uint64_t>& mask) {
  Machine machine(grammar.automaton());
  const ConfigId here = machine.walk(machine.start(), so_far);
  for (TokenId token = 0; token < static_cast<TokenId>(vocabulary.size()); ++token) {
    const std::string_view bytes = vocabulary.bytes(token);
    const bool expected = token == kEnd
                              ? machine.accepts(here)
                              : !bytes.empty() && machine.walk(here, bytes) != kDeadConfig;
    ASSERT_EQ(is_set(mask, token), expected)
        << "token " << token << " '" << bytes << "' behind '" << so_far << "'";
  }
}

void expect_exact_along_ways(GrammarKind kind, const std::string& text,
                             const std::shared_ptr<const Vocabulary>& vocabulary) {
  std::mt19937 random(5);
  const auto grammar = compiled(kind, text);
  for (int round = 0; round < 6; ++round) {
    Matcher matcher(grammar, vocabulary, {kEnd});
    std::string so_far;
    for (int step = 0; step < 25 && !matcher.is_finished(); ++step) {
      const std::vector<uint64_t> mask = mask_of(matcher, *vocabulary);
      ASSERT_NO_FATAL_FAILURE(expect_exact(*grammar, *vocabulary, so_far, mask));
      const TokenId token = draw(mask, random);
      ASSERT_NE(token, kNoToken);
      ASSERT_TRUE(matcher.accept(token));
      so_far += vocabulary->bytes(token);
    }
  }
}

TEST(Matcher, masks_are_exact_along_random_ways) {
  const std::pair<GrammarKind, std::string> grammars[] = {
      {GrammarKind::json_schema, kRecord},
      {GrammarKind::json_object, ""},
      {GrammarKind::json_schema, R"({"type":"string","minLength":3,"maxLength":50})"},
      {GrammarKind::json_schema, R"({"type":"string","pattern":"^[abc ]*$"})"},
      {GrammarKind::json_schema, R"({"type":"string","pattern":"^[abc ]*$","maxLength":70})"},
      {GrammarKind::json_schema,
       R"({"type":"string","pattern":"b","minLength":20,"maxLength":40})"},
      {GrammarKind::json_schema,
       R"({"type":"string","pattern":"^(ab|cä)*$","minLength":60,"maxLength":60})"},
      {GrammarKind::json_schema,
       R"({"type":"string","pattern":"^(ab|cä)*$","minLength":400,"maxLength":900})"},
      {GrammarKind::json_schema, R"({"type":"string","pattern":"a","minLength":300})"},
      {GrammarKind::regex, "(([abc ]{200,300},){70,90}|[ab1]{5,400})x"},
      {GrammarKind::regex, "(.{0,20}x|[ab]{5,9})+ä*"},
      {GrammarKind::regex, "[^\"\\\\\\x00-\\x1f]{0,5}|[abc 1]{0,60}"},
      {GrammarKind::gbnf, "root ::= \"[\" (root | [^\\]\\[]{0,70}) \"]\"\n"}};
  for (const auto& [kind, text] : grammars) {
    ASSERT_NO_FATAL_FAILURE(expect_exact_along_ways(kind, text, mixed_vocabulary())) << text;
  }
}

TEST(Matcher, masks_of_runs_are_exact) {
  const std::pair<GrammarKind, std::string> grammars[] = {
      {GrammarKind::regex, "([a-z_]+,)*"},
      {GrammarKind::regex, "([a-zA-Z0-9]{1,5}-)*"},
      {GrammarKind::regex, "[A-Z]?[a-z]*( [a-z]+)*T"},
      {GrammarKind::regex, "([a-z ]{2,9},)*"},
      {GrammarKind::regex, "([^,]+,)*"},
      {GrammarKind::regex, "([^T]{2,7}T)*"},
      {GrammarKind::regex, "([a-t][a-z0-9]{3,}é?)*"},
      {GrammarKind::regex, "([a-zä]{0,9}[a-zé]{0,9}x)*"},
      {GrammarKind::regex, "(foo|[a-z]{4}|tea.*)*"},
      {GrammarKind::json_schema, R"({"type":"string","minLength":3,"maxLength":20})"},
      {GrammarKind::json_schema, R"({"type":"array","items":{"type":"string","maxLength":9}})"},
      {GrammarKind::json_schema, R"({"type":"array","items":{"type":"string","format":"email"}})"},
      {GrammarKind::json_schema,
       R"({"type":"array","items":{"type":"string","format":"hostname"}})"},
      {GrammarKind::json_schema, R"({"type":"string","pattern":"^[\\w ]{2,30}$"})"},
      {GrammarKind::json_schema,
       R"({"type":"string","pattern":"^[\\w ]*$","minLength":2,"maxLength":3000})"},
      {GrammarKind::json_schema,
       R"({"type":"string","pattern":"^[a-zé]+( [a-z]+)*$","maxLength":40})"}};
  for (const auto& [kind, text] : grammars) {
    ASSERT_NO_FATAL_FAILURE(expect_exact_along_ways(kind, text, wordy_vocabulary())) << text;
  }
}

TEST(Matcher, any_allowed_token_leads_to_text_that_validates) {
  const std::string schemas[] = {
      kRecord,
      R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-c]{2,6}$"},"kind":{"enum":["x","y"]}},"required":["kind"]})",
      R"({"anyOf":[{"type":"array","prefixItems":[{"type":"boolean"}],"items":{"type":"number","minimum":-1.5,"maximum":2.25}},{"type":"integer","multipleOf":3}]})",
      R"({"type":"array","items":{"type":"string","minLength":1,"maxLength":4},"minItems":2,"maxItems":5})",
      R"({"allOf":[{"$ref":"#/$defs/a"},{"properties":{"b":{"maximum":10}}}],"$defs":{"a":{"type":"object","properties":{"b":{"type":"integer","minimum":8},"c":{"type":"null"}},"required":["b"],"maxProperties":3}}})",
      R"({"type":"object","additionalProperties":{"type":"integer"},"maxProperties":4})"};
  std::mt19937 random(9);
  for (const std::string& schema : schemas) {
    const auto grammar = compiled(GrammarKind::json_schema, schema);
    const TinyValidator validator(schema);
    int ended = 0;
    for (int round = 0; round < 60; ++round) {
      Matcher matcher(grammar, mixed_vocabulary(), {kEnd});
      std::string text;
      bool whole = false;
      for (int step = 0; step < 400 && !whole; ++step) {
        const std::vector<uint64_t> mask = mask_of(matcher, *mixed_vocabulary());
        // Ends where it may, and closes what is open: else texts would be long.
        TokenId token = is_set(mask, kEnd) ? kEnd : draw(mask, random);
        for (const char close : std::string("\"]}")) {
          const auto byte = static_cast<TokenId>(close);
          if (step > 30 && token != kEnd && is_set(mask, byte) && random() % 2 == 0) token = byte;
        }
        ASSERT_NE(token, kNoToken) << schema << "\n" << text;
        ASSERT_TRUE(matcher.accept(token));
        whole = token == kEnd;
        text += mixed_vocabulary()->bytes(token);
      }
      ended += whole;
      ASSERT_TRUE(!whole || validator.accepts(text)) << schema << "\n" << text;
    }
    EXPECT_GT(ended, 40) << schema;
  }
}

TEST(Matcher, ends_are_allowed_where_the_text_is_whole) {
  Matcher matcher = matcher_of(GrammarKind::regex, "a{1,2}");
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.accepts());
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_FALSE(matcher.accept('a'));
  const std::vector<uint64_t> mask = mask_of(matcher, *mixed_vocabulary());
  EXPECT_TRUE(is_set(mask, kEnd));
  EXPECT_FALSE(is_set(mask, 'a'));
  EXPECT_TRUE(matcher.accept(kEnd));
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.is_finished());
  matcher.rollback(2);
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_TRUE(matcher.accept('a'));
}

TEST(Matcher, tokens_without_bytes_are_never_content) {
  Matcher matcher = matcher_of(GrammarKind::regex, "[\\s\\S]*");
  EXPECT_FALSE(matcher.accept(257));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1'000'000));
  EXPECT_FALSE(is_set(mask_of(matcher, *mixed_vocabulary()), 257));
}

TEST(Matcher, rollback_and_copies_are_like_a_fresh_run) {
  const auto grammar = compiled(GrammarKind::json_schema, kRecord);
  const auto runtime = std::make_shared<Runtime>(grammar, mixed_vocabulary());
  std::mt19937 random(21);
  for (int round = 0; round < 30; ++round) {
    Matcher matcher(runtime, {kEnd});
    std::vector<TokenId> tokens;
    for (int step = 0; step < 40 && !matcher.is_finished(); ++step) {
      if (random() % 3 == 0 && !tokens.empty()) {
        const size_t back = 1 + random() % std::min<size_t>(tokens.size(), 4);
        matcher.rollback(back);
        tokens.resize(tokens.size() - back);
      }
      const TokenId token = draw(mask_of(matcher, *mixed_vocabulary()), random);
      if (token == kNoToken) break;
      ASSERT_TRUE(matcher.accept(token));
      tokens.push_back(token);
    }
    Matcher copy = matcher;
    Matcher fresh(grammar, mixed_vocabulary(), {kEnd});
    for (const TokenId token : tokens) ASSERT_TRUE(fresh.accept(token));
    EXPECT_EQ(mask_of(copy, *mixed_vocabulary()), mask_of(fresh, *mixed_vocabulary()));
    EXPECT_EQ(matcher.length(), tokens.size());
    copy.rollback(copy.length());
    EXPECT_EQ(mask_of(matcher, *mixed_vocabulary()), mask_of(fresh, *mixed_vocabulary()))
        << "a copy goes its own way";
  }
}

// So many states are seen that findings are begun anew on the way.
TEST(Matcher, forgetting_what_was_found_changes_nothing) {
  const auto grammar = compiled(GrammarKind::gbnf,
                                "root ::= \"(\" root \")\" | [a-z]{1,400000} | \"1\" root \"2\"\n");
  const auto runtime = std::make_shared<Runtime>(grammar, mixed_vocabulary());
  Matcher idle(runtime, {kEnd});
  for (const char c : std::string("((1abc")) ASSERT_TRUE(idle.accept(c));
  const std::vector<uint64_t> before = mask_of(idle, *mixed_vocabulary());
  std::weak_ptr<Findings> first;
  {
    const auto lock = runtime->lock();
    first = runtime->findings();
  }
  Matcher busy(runtime, {kEnd});
  bool renewed = false;
  for (int i = 0; i < 390'000 && !renewed; ++i) {
    ASSERT_TRUE(busy.accept('a' + i % 26));
    const auto lock = runtime->lock();
    renewed = runtime->findings() != first.lock();
  }
  EXPECT_TRUE(renewed);
  EXPECT_EQ(mask_of(idle, *mixed_vocabulary()), before);
  for (const char c : std::string("2))")) ASSERT_TRUE(idle.accept(c));
  EXPECT_TRUE(idle.accept(kEnd));
  EXPECT_TRUE(busy.accept('a'));
  EXPECT_TRUE(first.expired()) << "all have carried over what they need";
}

TEST(Matcher, too_many_readings_are_said_in_words) {
  Matcher matcher = matcher_of(
      GrammarKind::gbnf, "root ::= ([a-z] | [a-z] [a-z] | [a-z] [a-z] [a-z]){1,100000} \"!\"\n");
  Status status;
  std::vector<uint64_t> mask(mixed_vocabulary()->words());
  for (int i = 0; i < 20'000 && status.ok(); ++i) {
    if (!matcher.accept('a')) break;
    if (i % 1000 == 0) status = matcher.fill_mask(mask);
  }
  if (status.ok()) status = matcher.fill_mask(mask);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("too many readings"));
}

}  // namespace
}  // namespace tenon::grammar
