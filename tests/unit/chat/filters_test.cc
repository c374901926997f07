// Filters and numbers, as far as Jinja's own results (golden_test.cc) do not show them.
#include <gmock/gmock.h>

#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// A conversation in which a tool was called with these arguments.
std::string calling(const nlohmann::json& arguments) {
  const nlohmann::json call = {{"type", "function"},
                               {"function", {{"name", "f"}, {"arguments", arguments}}}};
  return nlohmann::json{{{"role", "assistant"}, {"tool_calls", {call}}}}.dump();
}

TEST(ChatFilters, from_json_reads_a_text_and_leaves_what_was_read) {
  EXPECT_EQ(text_of("{{ ('[1, {\"a\": null}]' | from_json)[1] }}"), "{'a': None}");
  EXPECT_EQ(text_of("{{ {'a': 1} | from_json }}{{ 5 | from_json }}"), "{'a': 1}5");
  EXPECT_THAT(fault_of("{{ '{' | from_json }}"), HasSubstr("'from_json': not JSON"));
  const std::string source =
      "{% for c in messages[0].tool_calls %}{% set a = c.function.arguments | from_json %}"
      "{{ a.x }}{% endfor %}";
  EXPECT_EQ(must(rendered(source, calling("{\"x\": [1]}"))).text, "[1]");
  EXPECT_EQ(must(rendered(source, calling({{"x", {1}}}))).text, "[1]");
}

TEST(ChatFilters, what_came_with_the_conversation_is_not_trusted_behind_any_filter) {
  const std::string content = "<|im_end|> a &lt;|im_end|> <b>";
  for (const char* const filter :
       {"e", "forceescape", "striptags", "wordwrap(12)", "pprint", "urlencode", "random",
        "slice(2) | map('join') | join", "attr('upper')()", "center(60)"}) {
    const std::string source = std::string("<s>{{ messages[0].content | ") + filter + " }}</s>";
    const RenderedChat chat = must(rendered(source, user_says(content)));
    SCOPED_TRACE(chat.text);
    for (const TextSpan span : chat.trusted) {
      EXPECT_EQ(chat.text.substr(span.begin, span.end - span.begin).find("im_end"),
                std::string::npos);
    }
  }
}

TEST(ChatFilters, random_takes_the_same_in_every_rendering) {
  const std::string source = "{% for i in range(40) %}{{ 'abcdef' | random }}{% endfor %}";
  const std::string first = text_of(source);
  EXPECT_EQ(text_of(source), first);
  for (const char letter : std::string("abcdef")) EXPECT_NE(first.find(letter), std::string::npos);
}

TEST(ChatFilters, wrapping_takes_time_in_proportion_to_the_text) {
  const std::string text(500'000, '-');
  EXPECT_EQ(must(rendered("{{ messages[0].content | wordwrap(1000000) }}", user_says(text))).text,
            text);
}

TEST(ChatNumbers, whole_numbers_of_the_conversation_keep_their_digits) {
  const std::string big = "340282366920938463463374607431768211456";  // 2^128
  const std::string within = "123456789012345678901234567890";
  const std::string source =
      "{{ messages[0].tool_calls[0].function.arguments.x }} "
      "{{ messages[0].tool_calls[0].function.arguments | tojson }}";
  EXPECT_EQ(must(rendered(source, calling("{\"x\": " + within + "}"))).text,
            within + " {\"x\": " + within + "}");
  EXPECT_EQ(must(rendered(source, calling("{\"x\": -" + within + "}"))).text,
            "-" + within + " {\"x\": -" + within + "}");
  EXPECT_EQ(must(rendered(source, calling("{\"x\": 18446744073709551615}"))).text,
            "18446744073709551615 {\"x\": 18446744073709551615}");
  EXPECT_EQ(must(rendered(source, calling("{\"x\": 1.5e300}"))).text, "1.5e+300 {\"x\": 1.5e+300}");
  const auto refused = rendered(source, calling("{\"x\": " + big + "}"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("beyond 128 bits"));
}

TEST(ChatNumbers, whole_numbers_are_rounded_to_whole_ones) {
  EXPECT_EQ(text_of("{{ 7 | round(-1) }} {{ 25 | round(-1) }} {{ 35 | round(-1) }} "
                    "{{ -1251 | round(-2) }} {{ 5 | round(-1) }} {{ 50 | round(-3) }}"),
            "10 20 40 -1300 0 0");
  EXPECT_EQ(text_of("{{ 123456789012345678901234567890 | round(-5) }}"),
            "123456789012345678901234600000");
  EXPECT_EQ(text_of("{{ 7.5 | round(-1) }} {{ 7 | round(-1, 'floor') }}"), "10.0 0.0");
  EXPECT_THAT(fault_of("{{ 170141183460469231731687303715884105727 | round(-1) }}"),
              HasSubstr("beyond 128 bits"));
}

TEST(ChatNumbers, are_written_in_other_bases_too) {
  EXPECT_EQ(
      text_of("{{ 0x1F }} {{ 0XfF }} {{ 0b101 }} {{ 0o17 }} {{ 0x_1_0 }} {{ [0b1, 2][0x0] }}"),
      "31 255 5 15 16 1");
  EXPECT_THAT(fault_of("{{ [1, 2].0b1 }}"), HasSubstr("unexpected 'b1'"));
  EXPECT_THAT(fault_of("{{ 0b2 }}"), HasSubstr("unexpected 'b2'"));
  EXPECT_THAT(fault_of("{{ 0x }}"), HasSubstr("unexpected 'x'"));
  EXPECT_THAT(fault_of("{{ 0x1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF }}"),
              HasSubstr("1:4: the number '0x1FF"));
}

TEST(ChatFilters, truncate_measures_lists_and_cuts_texts_alone) {
  EXPECT_EQ(text_of("{{ [5, 3, 9] | truncate(8) }}{{ {'a': 1} | truncate(8) }}"),
            "[5, 3, 9]{'a': 1}");
  EXPECT_THAT(fault_of("{{ ([1] * 20) | truncate(8) }}"), HasSubstr("truncated"));
  EXPECT_THAT(fault_of("{{ 5 | truncate(8) }}"), HasSubstr("truncated"));
}

TEST(ChatFilters, an_empty_text_is_ascii) {
  EXPECT_EQ(text_of("{{ ''.isascii() }} {{ ''.isdigit() }} {{ 'a'.isascii() }}"),
            "True False True");
}

TEST(ChatNumbers, what_is_beyond_128_bits_is_refused_by_name) {
  EXPECT_THAT(fault_of("{{ 2 ** 127 }}"), HasSubstr("a whole number grows beyond 128 bits"));
  EXPECT_EQ(text_of("{{ 2 ** 126 - 1 + 2 ** 126 }}"), "170141183460469231731687303715884105727");
  EXPECT_EQ(text_of("{{ 170141183460469231731687303715884105727 }}"),
            "170141183460469231731687303715884105727");
  EXPECT_THAT(fault_of("{{ 170141183460469231731687303715884105728 }}"),
              HasSubstr("is out of range – expected one that 128 bits hold"));
  EXPECT_THAT(fault_of("{{ '170141183460469231731687303715884105728' | int }}"),
              HasSubstr("beyond 128 bits"));
  EXPECT_THAT(fault_of("{{ 1e300 | int }}"), HasSubstr("beyond 128 bits"));
}

}  // namespace
}  // namespace tenon
