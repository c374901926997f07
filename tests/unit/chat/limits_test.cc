// Templates and conversations that mean harm end with an error, soon.
#include <gmock/gmock.h>

#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(ChatLimits, loops_in_loops_run_out_of_steps) {
  const std::string loop =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in "
      "range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_THAT(fault_of(loop), AnyOf(HasSubstr("too many steps"), HasSubstr("bytes of memory")));
}

TEST(ChatLimits, texts_that_double_run_out_of_bytes) {
  EXPECT_THAT(fault_of("{% set ns = namespace(x='ab') %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              HasSubstr("too many bytes of text"));
  EXPECT_THAT(fault_of("{{ 'ab' * 99999999999 }}"), HasSubstr("too many bytes of text"));
  EXPECT_THAT(fault_of("{{ 'x'.center(99999999999) }}"), HasSubstr("too many bytes of text"));
  EXPECT_THAT(fault_of("{{ 'x'.zfill(99999999999) }}"), HasSubstr("too many bytes of text"));
  EXPECT_THAT(fault_of("{{ ('a' * 99999).replace('', 'b' * 99999) | length }}"),
              HasSubstr("too many bytes of text"));
  EXPECT_THAT(fault_of("{{ 'x' | indent(999999999, true) }}"), HasSubstr("too many bytes of text"));
}

TEST(ChatLimits, lists_that_double_run_out_of_memory) {
  EXPECT_THAT(fault_of("{% set ns = namespace(x=[1, 2]) %}{% for i in range(99) %}"
                       "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              AnyOf(HasSubstr("bytes of memory"), HasSubstr("too many steps")));
  EXPECT_THAT(fault_of("{{ [0] * 99999999999 }}"),
              AnyOf(HasSubstr("bytes of memory"), HasSubstr("too many steps")));
}

TEST(ChatLimits, values_that_hold_themselves_over_and_over_end) {
  const std::string nest =
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}";
  EXPECT_THAT(fault_of(nest), HasSubstr("levels of nesting"));
  // Each level names the one below twice: small in memory, endless when written or compared.
  const std::string twice =
      "{% set ns = namespace(x=[]) %}{% for i in range(150) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  EXPECT_THAT(fault_of(twice + "{{ ns.x }}"), HasSubstr("too many"));
  EXPECT_THAT(fault_of(twice + "{{ ns.x | tojson }}"), HasSubstr("too many"));
  EXPECT_THAT(fault_of(twice + "{% set a = ns.x + [] %}{{ a == ns.x + [] }}"),
              HasSubstr("too many"));
}

TEST(ChatLimits, a_macro_that_calls_itself_without_end_is_stopped) {
  EXPECT_THAT(fault_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("levels of nesting"));
}

TEST(ChatLimits, the_output_is_bounded) {
  ChatOptions options;
  options.limits.text_bytes = 1000;
  EXPECT_THAT(fault_of("{% for i in range(500) %}abc{% endfor %}", "hi", options),
              HasSubstr("too many bytes of text"));
  EXPECT_EQ(text_of("{% for i in range(300) %}abc{% endfor %}", options).size(), 900u);
}

TEST(ChatLimits, a_search_in_a_long_list_costs_its_length) {
  ChatOptions options;
  options.limits.steps = 200'000;
  EXPECT_THAT(fault_of("{% set l = range(50000) | list %}{% for i in range(50) %}"
                       "{{ 'x' in l }}{% endfor %}",
                       "hi", options),
              HasSubstr("too many steps"));
}

TEST(ChatLimits, a_conversation_that_is_nested_without_end_is_refused) {
  const std::string deep(100'000, '[');
  const auto result = rendered("x", "[{\"role\": \"user\", \"content\": " + deep);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("nested deeper"));
}

TEST(ChatLimits, a_macro_does_not_outlive_the_block_that_it_stands_in) {
  EXPECT_THAT(fault_of("{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}x{% endmacro %}"
                       "{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
              HasSubstr("outside of the block"));
}

TEST(ChatLimits, a_number_that_grows_without_end_is_an_error) {
  EXPECT_THAT(fault_of("{{ 9 ** 99 }}"), HasSubstr("beyond 128 bits"));
  EXPECT_EQ(text_of("{{ 2 ** 100 }}"), "1267650600228229401496703205376");
}

}  // namespace
}  // namespace tenon
