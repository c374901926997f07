#include <gmock/gmock.h>

#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ChatParse, what_is_not_known_is_refused_with_line_and_column) {
  EXPECT_THAT(fault_of("a\n  {{ x | nosuch }}"), StartsWith("t.jinja:2:10: there is no filter"));
  EXPECT_THAT(fault_of("{{ x is nosuch }}"), StartsWith("t.jinja:1:9: there is no test 'nosuch'"));
  EXPECT_THAT(fault_of("{% include 'x' %}"), StartsWith("t.jinja:1:4: there is no tag 'include'"));
  EXPECT_THAT(fault_of("\n\n{{ nosuch(1) }}"), StartsWith("t.jinja:3:4: there is no function"));
  EXPECT_THAT(fault_of("{{ x.nosuch() }}"), HasSubstr("no value has a method 'nosuch'"));
  EXPECT_THAT(fault_of("{{ [] | map('nosuch') }}"), HasSubstr("there is no filter 'nosuch'"));
  EXPECT_THAT(fault_of("{{ [] | selectattr('a', 'nosuch') }}"), HasSubstr("there is no test"));
}

TEST(ChatParse, what_only_some_conversations_reach_is_refused_when_one_does) {
  const struct {
    std::string before, use, after, fault;
  } kCases[] = {
      {"{% if content %}", "{{ 1 | nosuch }}", "{% endif %}", "there is no filter 'nosuch'"},
      {"{% if not content %}a{% else %}", "{{ 1 is nosuch }}", "{% endif %}", "there is no test"},
      {"{% for c in content %}", "{% set y = c | nosuch %}", "{% endfor %}", "there is no filter"},
      {"{% if content %}", "{{ nosuch(1) }}", "{% endif %}", "'nosuch' is undefined"},
      {"{% if content %}", "{{ content.nosuch() }}", "{% endif %}", "has no attribute 'nosuch'"},
      {"{% if content %}", "{{ [1] | map('nosuch') | list }}", "{% endif %}", "there is no filter"},
      {"{% if content %}", "{{ [1] | select('nosuch') | list }}", "{% endif %}",
       "no test 'nosuch'"},
      {"{% if content %}", "{% filter nosuch %}a{% endfilter %}", "{% endif %}", "no filter"},
      {"{{ content and", " 1 | nosuch", " }}", "there is no filter"},
      {"{{ 'a' if not content else", " 1 | nosuch", " }}", "there is no filter"},
      {"{% macro m() %}", "{{ 1 | nosuch }}", "{% endmacro %}{{ m() if content }}", "no filter"},
      {"{% if content %}", "{{ 5 | urlize }}", "{% endif %}", "there is no filter 'urlize'"},
  };
  for (const auto& [before, use, after, fault] : kCases) {
    const std::string source =
        "{% set content = messages[0].content %}" + before + use + after + "end";
    SCOPED_TRACE(source);
    const ChatTemplate chat = must(ChatTemplate::parse(source, "t.jinja"));
    ASSERT_EQ(chat.unknown_names().size(), 1u);
    EXPECT_THAT(chat.unknown_names()[0], StartsWith("t.jinja:1:"));
    EXPECT_TRUE(chat.render(ChatInput{.messages = user_says("")}, {}).ok());
    EXPECT_THAT(fault_of(source), HasSubstr(fault));
  }
}

TEST(ChatParse, a_template_that_knows_all_it_uses_names_nothing) {
  EXPECT_TRUE(chat_template("{% if x %}{{ x | upper }}{% endif %}").unknown_names().empty());
}

TEST(ChatParse, a_filter_that_is_missing_is_said_with_what_there_is) {
  EXPECT_EQ(fault_of("{{ x | nosuch }}"),
            "t.jinja:1:8: there is no filter 'nosuch' – expected one of Jinja's or 'from_json' – "
            "change the template, or give another");
}

TEST(ChatParse, near_names_are_suggested) {
  EXPECT_THAT(fault_of("{{ x | tojsn }}"), HasSubstr("did you mean 'tojson'?"));
  EXPECT_THAT(fault_of("{{ x.startwith('a') }}"), HasSubstr("did you mean 'startswith'?"));
}

TEST(ChatParse, what_is_not_the_language_is_refused) {
  for (const char* source : {"{{",
                             "{{ 1",
                             "{% if %}",
                             "{% if x %}",
                             "{% for x %}{% endfor %}",
                             "{{ 'a }}",
                             "{{ (1] }}",
                             "{{ 1 + }}",
                             "{% endif %}",
                             "{% set 1 = 2 %}",
                             "{# x",
                             "{% raw %}",
                             "{{ a b }}",
                             "{{ }}",
                             "{% break %}",
                             "{{ f(a=1, 2) }}",
                             "{% macro m(a=1, b) %}{% endmacro %}",
                             "{{ x. }}",
                             "{{ x[] }}",
                             "{% set none = 1 %}",
                             "{{ '\\x1' }}",
                             "{{ 012 }}",
                             "{{ a ! b }}",
                             "{% elif x %}",
                             "{% call x %}{% endcall %}",
                             "{{ x is }}",
                             "{{ ) }}"}) {
    EXPECT_FALSE(ChatTemplate::parse(source, "t.jinja").ok()) << source;
  }
}

TEST(ChatParse, nesting_without_end_is_refused) {
  constexpr int kDepth = 100'000;
  std::string sum = "{{ 1", blocks;
  for (int i = 0; i < kDepth; ++i) {
    sum += "+1";
    blocks += "{% if x %}";
  }
  const std::string round = std::string(kDepth, '(') + "1" + std::string(kDepth, ')');
  const std::string square = std::string(kDepth, '[') + std::string(kDepth, ']');
  for (const std::string& source : {"{{ " + round + " }}", "{{ " + square + " }}", sum + " }}",
                                    "{{ not" + round + " }}", blocks}) {
    EXPECT_THAT(fault_of(source), HasSubstr("nested deeper than")) << source.substr(0, 20);
  }
}

TEST(ChatParse, a_template_that_is_no_utf8_is_refused) {
  EXPECT_THAT(fault_of("a\xFF"), HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace tenon
