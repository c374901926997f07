#include "core/base/quote.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/log.h"
#include "core/base/result.h"

namespace tenon {
namespace {

TEST(Quote, plain_text_of_any_language_is_shown_as_it_is) {
  EXPECT_EQ(one_line("größer 東京 🙂 \\d+"), "größer 東京 🙂 \\d+");
  EXPECT_EQ(in_quotes("kv_cache"), "'kv_cache'");
  EXPECT_EQ(in_quotes(""), "''");
}

TEST(Quote, characters_that_a_terminal_acts_upon_are_escaped) {
  EXPECT_EQ(one_line("\x1b[2J\x07\x7f"), "\\x1B[2J\\x07\\x7F");
  EXPECT_EQ(one_line("a\r\n\tb"), "a\\r\\n\\tb");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(one_line("\u009b[2J"), "\\u009B[2J");
}

TEST(Quote, characters_that_reorder_or_hide_text_are_escaped) {
  EXPECT_EQ(one_line("abc\u202egnp.exe"), "abc\\u202Egnp.exe");
  EXPECT_EQ(one_line("\u2066x\u2069\u200b\ufeff\u2028"), "\\u2066x\\u2069\\u200B\\uFEFF\\u2028");
}

TEST(Quote, bytes_that_are_no_UTF_8_are_escaped_one_by_one) {
  EXPECT_EQ(one_line("a\xff\xfe"), "a\\xFF\\xFE");
  EXPECT_EQ(one_line("\xc0\xaf"), "\\xC0\\xAF");           // longer than needed
  EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xED\\xA0\\x80");  // a surrogate
  EXPECT_EQ(one_line("\xe2\x82"), "\\xE2\\x82");           // cut off
  EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80");
}

TEST(Quote, a_long_text_is_cut_between_characters_and_says_how_long_it_was) {
  EXPECT_EQ(one_line(std::string(500'000, 'x'), 10), "xxxxxxxxxx… (500000 bytes)");
  EXPECT_EQ(one_line("ääää", 5), "ää… (8 bytes)");
  EXPECT_EQ(one_line("12345", 5), "12345");
}

TEST(Quote, a_value_stands_in_double_quotes_and_is_cut_soon) {
  EXPECT_EQ(shown_text("a\x1b[2J\nb"), "\"a\\x1B[2J\\nb\"");
  EXPECT_EQ(shown_text(std::string(79, 'x') + "ä"), '"' + std::string(79, 'x') + "… (81 bytes)\"");
}

TEST(Quote, a_view_of_nothing_is_empty_whatever_its_length) {
  EXPECT_EQ(one_line(std::string_view(nullptr, 5)), "");  // NOLINT(bugprone-string-constructor)
}

TEST(Quote, a_message_keeps_its_lines_and_nothing_else_that_a_terminal_acts_upon) {
  EXPECT_EQ(printable("one\n  two\x1b[0m"), "one\n  two\\x1B[0m");
}

TEST(Quote, context_put_in_front_of_an_error_cuts_and_escapes_what_the_error_says) {
  const Status huge = failed(std::string(size_t{1} << 20, 'x') + "\x1b");
  const Status told = with_context("scheduler '\x1b'", huge);
  EXPECT_TRUE(told.message().size() < kMostMessageBytes + 100);
  EXPECT_TRUE(told.message().starts_with("scheduler '\\x1B': xxx"));
  EXPECT_TRUE(with_context("step", told).message().ends_with("… (1048577 bytes)"));
  EXPECT_TRUE(copy(huge).message().size() < kMostMessageBytes + 100);
}

TEST(Quote, a_word_of_a_command_line_is_quoted_where_a_shell_would_read_more_than_one) {
  EXPECT_EQ(shell_word("/opt/tenon"), "/opt/tenon");
  EXPECT_EQ(shell_word("sampler.order=top_k,top_p"), "sampler.order=top_k,top_p");
  EXPECT_EQ(shell_word("/opt/my tenon"), "'/opt/my tenon'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Quote, a_line_of_the_log_is_one_line_without_characters_that_a_terminal_acts_upon) {
  std::string line;
  set_log_sink([&](LogLevel, std::string_view component, std::string_view text) {
    line = std::string(component) + ": " + std::string(text);
  });
  log(LogLevel::error, "sampler \x1b", "a\nforged line\x1b[2J");
  set_log_sink({});
  EXPECT_EQ(line, "sampler \\x1B: a\\nforged line\\x1B[2J");
}

}  // namespace
}  // namespace tenon
