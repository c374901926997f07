#include "core/grammar/run.h"

#include "core/grammar/token_index.h"
#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

AsciiSet set_of(std::string_view bytes) {
  AsciiSet set;
  for (const char byte : bytes) set.add(static_cast<uint8_t>(byte));
  return set;
}

std::optional<Run> run_behind(std::string_view pattern, std::string_view so_far) {
  const auto grammar = compiled(GrammarKind::regex, pattern);
  Machine machine(grammar->automaton());
  return find_run(machine, grammar->automaton(), machine.walk(machine.start(), so_far), 16);
}

TEST(Run, goes_as_far_as_its_characters_repeat) {
  const auto run = run_behind("[a-j]+,", "ab");
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->characters, set_of("abcdefghij"));
  EXPECT_EQ(run->most, 16u);
  EXPECT_EQ(run->ways_out, set_of(","));
}

TEST(Run, ends_where_its_count_does) {
  const auto run = run_behind("[a-j]{2,5},", "ab");
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->most, 3u);
  EXPECT_EQ(run->ways_out, set_of(","));
}

TEST(Run, has_characters_beyond_ascii_all_or_none) {
  const auto all = run_behind("[^,]{2,5},", "");
  ASSERT_TRUE(all.has_value());
  EXPECT_TRUE(all->characters.others);
  EXPECT_EQ(all->most, 5u);
  const auto some = run_behind("[a-jé]{2,5},", "");
  ASSERT_TRUE(some.has_value());
  EXPECT_FALSE(some->characters.others);
  EXPECT_TRUE(some->ways_out.others);
  const auto none = run_behind("[a-j]{2,5},", "");
  ASSERT_TRUE(none.has_value());
  EXPECT_FALSE(none->characters.others || none->ways_out.others);
}

TEST(Run, keeps_the_characters_that_stay_together) {
  const auto run = run_behind("[a-z]([a-m0-9])*", "");
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->characters, set_of("abcdefghijklm"));
  EXPECT_EQ(run->ways_out, set_of("nopqrstuvwxyz0123456789"));
}

TEST(Run, is_none_where_letters_part) {
  EXPECT_FALSE(run_behind("alpha|beta|gamma", "").has_value());
  EXPECT_FALSE(run_behind("[0-9]+", "").has_value());
}

TEST(TokenIndex, finds_tokens_by_their_characters) {
  const TokenIndex index({"ab", "abc", "", "a,", "ä", "aä", "\xc3", std::string(17, 'a'), "b"},
                         false);
  const auto ids = [](const TokenIndex::Bits& bits) { return bits.front(); };
  EXPECT_EQ(ids(*index.within(set_of("ab"))), 0b1'0000'0001u);
  EXPECT_EQ(ids(*index.within(set_of("abc,"))), 0b1'0000'1011u);
  AsciiSet others = set_of("a");
  others.others = true;
  EXPECT_EQ(ids(*index.within(others)), 0b0'0011'0000u);
  EXPECT_EQ(ids(index.at_most(1)), 0b1'0001'0000u);
  EXPECT_EQ(ids(index.at_most(2)), 0b1'0011'1001u);
  const auto list = [](std::span<const TokenId> tokens) {
    return std::vector<TokenId>(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(list(index.with(',')), std::vector<TokenId>{3});
  EXPECT_EQ(list(index.beyond_ascii()), (std::vector<TokenId>{4, 5, 6}));
  EXPECT_EQ(list(index.broken()), std::vector<TokenId>{6});
  EXPECT_EQ(list(index.long_ones()), std::vector<TokenId>{7});
}

TEST(TokenIndex, has_what_stands_behind_a_space_on_its_own) {
  const std::vector<std::string> tokens = {" ab", "ab", " ", "  a", "a b"};
  const TokenIndex behind(tokens, true), others(tokens, false);
  EXPECT_EQ(behind.within(set_of("ab"))->front(), 0b00101u);
  EXPECT_EQ(behind.within(set_of("ab "))->front(), 0b01101u);
  EXPECT_EQ(behind.at_most(0).front(), 0b00100u);
  EXPECT_EQ(behind.with(' ').size(), 1u);
  EXPECT_EQ(others.within(set_of("ab"))->front(), 0b00010u);
  EXPECT_EQ(others.with(' ').size(), 1u);
}

}  // namespace
}  // namespace tenon::grammar
