#include "core/grammar/matching/run.h"

#include "core/grammar/matching/token_index.h"
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

TEST(Run, takes_more_behind_its_first_character_than_as_that) {
  const auto run = run_behind("[a-z_][a-z0-9_]*,", "");
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->characters, set_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
  EXPECT_EQ(run->elsewhere, set_of("0123456789"));
  EXPECT_EQ(run->most, 16u);
  EXPECT_EQ(run->ways_out, set_of(","));
  const auto other = run_behind("([^t,][^,]*|true),", "");
  ASSERT_TRUE(other.has_value());
  EXPECT_TRUE(other->characters.others);
  EXPECT_EQ(other->elsewhere, set_of("t"));
  EXPECT_FALSE(run_behind("[a-z]+,", "a")->elsewhere.has('t'));
}

TEST(Run, knows_where_its_ways_out_lead) {
  const auto grammar = compiled(GrammarKind::regex, "[a-j]{2,5}(,[0-9]|\\.é)");
  Machine machine(grammar->automaton());
  const auto run = find_run(machine, grammar->automaton(), machine.start(), 16);
  ASSERT_TRUE(run.has_value());
  ASSERT_EQ(run->exits.size(), 2u);
  EXPECT_EQ(run->exits[0].byte, ',');
  EXPECT_EQ(following_bytes(machine, run->exits[0].target), set_of("0123456789"));
  EXPECT_EQ(run->exits[1].byte, '.');
  AsciiSet others;
  others.others = true;
  EXPECT_EQ(following_bytes(machine, run->exits[1].target), others);
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
  EXPECT_EQ(list(index.beginning('a')), (std::vector<TokenId>{0, 1, 3, 5, 7}));
  EXPECT_EQ(list(index.long_ones()), std::vector<TokenId>{7});
}

TEST(TokenIndex, finds_tokens_by_what_follows_a_byte) {
  const TokenIndex index({"a.b", ".", "x.", "..b", ".b", ".\xc3\xa9", "\xa9.b", "\xa9", "\xc3"},
                         false);
  const auto list = [](std::span<const TokenId> tokens) {
    return std::vector<TokenId>(tokens.begin(), tokens.end());
  };
  EXPECT_EQ(list(index.with('.', 'b')), (std::vector<TokenId>{0, 4, 6}));
  EXPECT_EQ(list(index.with('.', '.')), std::vector<TokenId>{3});
  EXPECT_EQ(list(index.with('.', 'a')), std::vector<TokenId>{});
  EXPECT_EQ(list(index.with('.', TokenIndex::kBeyond)), std::vector<TokenId>{5});
  EXPECT_EQ(list(index.with('.', TokenIndex::kEnd)), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(index.with('.').size(), 7u);
  EXPECT_EQ(list(index.broken()), (std::vector<TokenId>{6, 7, 8}));
  EXPECT_EQ(list(index.broken_behind_whole()), std::vector<TokenId>{8});
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
