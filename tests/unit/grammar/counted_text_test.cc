// Patterns next to lengths and to each other, held against every text that there is, up to some
// length.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/base/utf8.h"
#include "core/grammar/notation/regex.h"
#include "core/grammar/notation/text_form.h"
#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

using testing::HasSubstr;

struct TextSchema {
  std::vector<std::string> patterns;
  uint32_t least = 0, most = kUnbounded;

  std::string text() const {
    std::string all;
    for (const std::string& pattern : patterns) {
      all += (all.empty() ? "" : ",") + ("{\"pattern\":\"" + json_escaped(pattern) + "\"}");
    }
    std::string schema = "{\"type\":\"string\",\"allOf\":[" + all + "]";
    if (least > 0) schema += ",\"minLength\":" + std::to_string(least);
    if (most != kUnbounded) schema += ",\"maxLength\":" + std::to_string(most);
    return schema + "}";
  }
};

// A pattern by itself, which is not counted.
class Oracle {
 public:
  explicit Oracle(const std::string& pattern) {
    Expressions expressions;
    const auto root = parse_regex(expressions, pattern, TextForm::raw, Anchoring::search);
    EXPECT_TRUE(root.ok()) << pattern;
    auto built = build_automaton(expressions, *root);
    if (!built.ok()) return;  // nothing matches
    automaton_ = *std::move(built);
    machine_ = std::make_unique<Machine>(*automaton_);
  }
  bool matches(const std::string& text) {
    if (machine_ == nullptr) return false;
    const ConfigId end = machine_->walk(machine_->start(), text);
    return end != kDeadConfig && machine_->accepts(end);
  }

 private:
  std::unique_ptr<const Automaton> automaton_;
  std::unique_ptr<Machine> machine_;
};

// One byte, two and four, and what is escaped.
const std::vector<std::string> kCharacters = {"a", "b", "é", "😀", "\n"};

void add_texts(const std::string& from, uint32_t left, std::vector<std::string>& out) {
  out.push_back(from);
  if (left == 0) return;
  for (const std::string& character : kCharacters) add_texts(from + character, left - 1, out);
}

// Every whole answer of at most `most` characters, as JSON.
std::set<std::string> answers_of(const TextSchema& schema, uint32_t most) {
  std::vector<Oracle> oracles(schema.patterns.begin(), schema.patterns.end());
  std::vector<std::string> texts;
  add_texts("", most, texts);
  std::set<std::string> answers;
  for (const std::string& text : texts) {
    size_t characters = 0;
    for (std::string_view rest = text; !rest.empty(); ++characters) {
      rest.remove_prefix(first_character(rest).bytes);
    }
    if (characters < schema.least || characters > schema.most) continue;
    const bool matches = std::all_of(oracles.begin(), oracles.end(),
                                     [&](Oracle& oracle) { return oracle.matches(text); });
    if (matches) answers.insert("\"" + json_escaped(text) + "\"");
  }
  return answers;
}

// Whatever bytes may follow, they can be completed: every configuration that there is leads to one
// where the text may end.
void expect_no_dead_ends(const Automaton& automaton, const std::string& schema) {
  Machine machine(automaton);
  std::vector<ConfigId> configs = {machine.start()};
  std::map<ConfigId, std::vector<ConfigId>> into;
  std::set<ConfigId> known = {machine.start()};
  for (size_t at = 0; at < configs.size(); ++at) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const ConfigId next = machine.step(configs[at], static_cast<uint8_t>(byte));
      if (next == kDeadConfig) continue;
      into[next].push_back(configs[at]);
      if (known.insert(next).second) configs.push_back(next);
    }
  }
  std::vector<ConfigId> open;
  for (const ConfigId config : configs) {
    if (machine.accepts(config)) open.push_back(config);
  }
  for (const ConfigId config : open) known.erase(config);
  while (!open.empty()) {
    const ConfigId config = open.back();
    open.pop_back();
    for (const ConfigId from : into[config]) {
      if (known.erase(from) > 0) open.push_back(from);
    }
  }
  EXPECT_TRUE(known.empty()) << schema;
}

// Beginnings of answers are what the machine goes on from, character by character, and no others.
void expect_exact(const TextSchema& schema, uint32_t most) {
  const std::set<std::string> answers = answers_of(schema, most);
  const auto made = compile({GrammarKind::json_schema, schema.text()});
  if (!made.ok()) {
    ASSERT_THAT(std::string(made.status().message()), HasSubstr("nothing satisfies"))
        << schema.text();
    EXPECT_TRUE(answers.empty()) << schema.text();
    return;
  }
  expect_no_dead_ends((*made)->automaton(), schema.text());
  std::vector<std::string> pieces = {"\""};
  for (const std::string& character : kCharacters) pieces.push_back(json_escaped(character));
  std::set<std::string> beginnings;
  for (const std::string& answer : answers) {
    for (size_t end = 1; end <= answer.size(); ++end) beginnings.insert(answer.substr(0, end));
  }
  Machine machine((*made)->automaton());
  std::vector<std::string> open = {"\""};
  for (size_t at = 0; at < open.size(); ++at) {
    const std::string begin = open[at];
    const ConfigId here = machine.walk(machine.start(), begin);
    ASSERT_NE(here, kDeadConfig) << schema.text() << "\n" << begin;
    EXPECT_EQ(machine.accepts(here), answers.contains(begin)) << schema.text() << "\n" << begin;
    for (const std::string& piece : pieces) {
      const bool goes_on = machine.walk(here, piece) != kDeadConfig;
      EXPECT_EQ(goes_on, beginnings.contains(begin + piece)) << schema.text() << "\n"
                                                             << begin << " then " << piece;
      if (goes_on) open.push_back(begin + piece);
    }
  }
}

TEST(CountedText, a_pattern_and_a_length_are_exact) {
  constexpr uint32_t kMost = 4;
  const char* patterns[] = {"^[ab]*$",  "a",           "^(ab)*$",      "^(a|bb|éé)*$",
                            "\\S",      "^a[^a]{2,}",  "^(a{2,3}b)*$", "^(😀|\\n)+$",
                            "b$",       "^(aaa|bb)*$", "a.*b",         "^\\u0001?é*$",
                            "^.$|^..$", "ab|ba"};
  for (const char* pattern : patterns) {
    for (uint32_t least = 0; least <= 3; ++least) {
      for (uint32_t most = std::max(least, 1u); most <= kMost; ++most) {
        expect_exact({{pattern}, least, most}, kMost);
      }
    }
  }
}

std::string random_pattern(std::mt19937& random, int depth) {
  const char* atoms[] = {"a", "b", "[ab]", "[^a]", "é", ".", "\\n", "[é😀]", "\\w"};
  std::string pattern;
  const auto parts = 1 + random() % 3;
  for (unsigned i = 0; i < parts; ++i) {
    if (depth > 0 && random() % 3 == 0) {
      pattern += "(" + random_pattern(random, depth - 1) + ")";
    } else {
      pattern += atoms[random() % std::size(atoms)];
    }
    const char* counts[] = {"", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"};
    pattern += counts[random() % std::size(counts)];
    if (depth > 0 && random() % 5 == 0) pattern += "|";
  }
  return pattern;
}

TEST(CountedText, random_patterns_and_lengths_are_exact) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    TextSchema schema;
    for (size_t count = 1 + seed % 2; count > 0; --count) {
      const std::string inner = random_pattern(random, 2);
      const bool whole = random() % 3 > 0;
      schema.patterns.push_back(whole ? "^(" + inner + ")$" : inner);
    }
    schema.least = random() % 4;
    schema.most = std::min<uint32_t>(4, schema.least + random() % 3);
    expect_exact(schema, 4);
  }
}

// Counts that are taken out of a pattern say the same as in it.
TEST(CountedText, repetitions_of_many_times_are_counted) {
  const auto whole = [](const std::string& schema, const std::string& text) {
    return matches(GrammarKind::json_schema, schema, "\"" + text + "\"");
  };
  const auto times = [](size_t count, const std::string& text) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  const std::string chunks =
      R"({"type":"string","pattern":"^x(ab){70,50000}\\.[0-9]{3}$","maxLength":30000})";
  EXPECT_TRUE(whole(chunks, "x" + times(70, "ab") + ".123"));
  EXPECT_TRUE(whole(chunks, "x" + times(14997, "ab") + ".123"));
  EXPECT_FALSE(whole(chunks, "x" + times(14998, "ab") + ".123"));
  EXPECT_FALSE(whole(chunks, "x" + times(69, "ab") + ".123"));
  EXPECT_FALSE(whole(chunks, "x" + times(70, "ab") + "a.123"));
  const std::string both =
      R"({"type":"string","allOf":[{"pattern":"^[a-z]{2,65536}$"},{"pattern":"^(aa|b)+$"}]})";
  EXPECT_TRUE(whole(both, "aab"));
  EXPECT_FALSE(whole(both, "b"));
  EXPECT_FALSE(whole(both, "aba"));
  EXPECT_TRUE(whole(both, times(65536, "b")));
  EXPECT_FALSE(whole(both, times(65537, "b")));
  const std::string format =
      R"({"type":"string","format":"uri","pattern":"^https://","minLength":20,"maxLength":2083})";
  EXPECT_TRUE(whole(format, "https://example.org/" + times(2063, "a")));
  EXPECT_FALSE(whole(format, "https://example.org/" + times(2064, "a")));
  EXPECT_FALSE(whole(format, "https://example.org"));
  EXPECT_FALSE(whole(format, "ftp://example.org/aaaaaaa"));
}

TEST(CountedText, lengths_of_any_size_are_built_at_once) {
  for (const char* pattern : {"\\\\S", "^[a-z ]+$", "^[^\\\\n]*$", "^(ab)*$", "^.*\\\\.txt$",
                              "^[\\\\s\\\\S]{1,65536}$", "^(abc|de)+$"}) {
    for (const std::string least : {"0", "2000", "999999998"}) {
      const std::string schema = R"({"type":"string","pattern":")" + std::string(pattern) +
                                 "\",\"minLength\":" + least + ",\"maxLength\":999999999}";
      const auto made = compile({GrammarKind::json_schema, schema});
      const bool is_short = std::string(pattern).find("65536") != std::string::npos;
      if (is_short && least == "999999998") {
        EXPECT_FALSE(made.ok());
        continue;
      }
      ASSERT_TRUE(made.ok()) << schema << std::string(made.status().message());
      EXPECT_LT((*made)->states(), 500u) << schema;
    }
  }
}

// The last characters before a bound are those that still lead to an end.
TEST(CountedText, masks_near_the_bounds_are_exact) {
  const std::vector<std::string> words = {"aa",
                                          "aaaa",
                                          "ab",
                                          "abab",
                                          "a\"",
                                          "b\"",
                                          "\"}",
                                          "é",
                                          "éé",
                                          "\xc3",
                                          " a",
                                          " aaa",
                                          "aaaaaaaaaaaaaaaaaa",
                                          "\\n",
                                          "\\",
                                          "ba",
                                          "bb"};
  const auto vocabulary = byte_vocabulary(words);
  for (const char* pattern : {"^[a-bé]*$", "^(ab)*$", "a", "^a[^b]*b$", "^(aa|é)+$", "\\\\S"}) {
    const std::string schema = R"({"type":"string","pattern":")" + std::string(pattern) +
                               R"(","minLength":38,"maxLength":40})";
    const auto grammar = compiled(GrammarKind::json_schema, schema);
    ASSERT_NE(grammar, nullptr);
    std::mt19937 random(7);
    for (int way = 0; way < 10; ++way) {
      Matcher matcher(grammar, vocabulary, {});
      Machine machine(grammar->automaton());
      ConfigId here = machine.start();
      while (!matcher.is_finished()) {
        const std::vector<uint64_t> mask = mask_of(matcher, *vocabulary);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < static_cast<TokenId>(vocabulary->size()); ++id) {
          const bool goes_on = machine.walk(here, vocabulary->bytes(id)) != kDeadConfig;
          EXPECT_EQ(is_set(mask, id), goes_on) << schema << " token " << id;
          if (is_set(mask, id)) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << schema;
        const TokenId token = allowed[random() % allowed.size()];
        ASSERT_TRUE(matcher.accept(token));
        here = machine.walk(here, vocabulary->bytes(token));
      }
    }
  }
}

TEST(CountedText, values_of_an_enum_are_held_against_pattern_and_length) {
  const std::string schema =
      R"({"enum":["ab","abab","aba","äb",7],"type":"string","pattern":"^(.b)*$","maxLength":3000,"minLength":2})";
  EXPECT_TRUE(matches(GrammarKind::json_schema, schema, "\"ab\""));
  EXPECT_TRUE(matches(GrammarKind::json_schema, schema, "\"äb\""));
  EXPECT_FALSE(matches(GrammarKind::json_schema, schema, "\"aba\""));
  EXPECT_FALSE(matches(GrammarKind::json_schema, schema, "7"));
}

TEST(CountedText, what_cannot_be_counted_is_refused_in_words) {
  // Lengths that come round after 2 · 3 · 5 · … · 23 characters.
  std::string pattern = "^(";
  for (const int prime : {2, 3, 5, 7, 11, 13, 17, 19, 23}) {
    pattern += (prime == 2 ? "(" : "|(") + std::string(1, static_cast<char>('a' + prime)) + "(" +
               std::string(static_cast<size_t>(prime), 'x') + ")*)";
  }
  const std::string schema = R"({"type":"string","pattern":")" + pattern +
                             R"()$","minLength":100000000,"maxLength":100000000})";
  EXPECT_THAT(refusal(GrammarKind::json_schema, schema),
              HasSubstr("come round too late to be counted – widen minLength and maxLength"));
}

}  // namespace
}  // namespace tenon::grammar
