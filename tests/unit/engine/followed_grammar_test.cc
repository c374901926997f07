// Drafts of a sequence that follows a grammar: which of them are worth computing.
#include "core/engine/answers/followed_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/grammar/grammar.h"

namespace tenon {
namespace {

using testing::ElementsAre;
constexpr TokenId kEnd = 26;  // a token without bytes, behind the letters

FollowedGrammar after(const std::string& pattern, const std::string& text) {
  std::vector<std::string> letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.emplace_back(1, c);
  letters.emplace_back();
  auto grammar = grammar::compile({grammar::GrammarKind::regex, pattern});
  auto vocabulary = grammar::Vocabulary::make(std::move(letters));
  EXPECT_TRUE(grammar.ok() && vocabulary.ok());
  FollowedGrammar followed(grammar::Matcher(*grammar, *vocabulary, {kEnd}), true);
  for (const char c : text) EXPECT_TRUE(followed.follow(c - 'a').ok());
  return followed;
}

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;
};
uint32_t keep(FollowedGrammar& followed, Tree& tree) {
  const uint32_t kept = followed.keep_legal(tree.tokens, tree.parents);
  tree.tokens.resize(kept);
  tree.parents.resize(kept);
  return kept;
}

TEST(FollowedGrammar, leaves_out_drafts_of_a_tree_that_it_forbids_and_what_follows_them) {
  FollowedGrammar followed = after("ab(cd|ce|fgh)z", "ab");
  // c and x and f; after c: d, e, x; after x: d; after d: z; after e: a; after f: g.
  Tree tree{{'c' - 'a', 'x' - 'a', 'f' - 'a', 'd' - 'a', 'e' - 'a', 'x' - 'a', 'd' - 'a', 'z' - 'a',
             'a' - 'a', 'g' - 'a'},
            {-1, -1, -1, 0, 0, 0, 1, 3, 4, 2}};
  EXPECT_EQ(keep(followed, tree), 6u);
  EXPECT_THAT(tree.tokens,
              ElementsAre('c' - 'a', 'f' - 'a', 'd' - 'a', 'e' - 'a', 'z' - 'a', 'g' - 'a'));
  EXPECT_THAT(tree.parents, ElementsAre(-1, -1, 0, 0, 2, 1));
  // It is where it was.
  EXPECT_EQ(followed.legal_drafts(std::vector<TokenId>{'f' - 'a', 'g' - 'a', 'h' - 'a'}), 3u);
}

TEST(FollowedGrammar, lets_nothing_follow_an_end_in_a_tree) {
  FollowedGrammar followed = after("a{1,3}", "a");
  Tree tree{{kEnd, 0, 0, kEnd, 0}, {-1, -1, 0, 1, 1}};
  keep(followed, tree);
  EXPECT_THAT(tree.tokens, ElementsAre(kEnd, 0, kEnd, 0));
  EXPECT_THAT(tree.parents, ElementsAre(-1, -1, 1, 1));
}

TEST(FollowedGrammar, that_there_is_none_of_forbids_nothing) {
  FollowedGrammar none;
  Tree tree{{5, 6, 7}, {-1, 0, 0}};
  EXPECT_EQ(keep(none, tree), 3u);
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 0));
}

}  // namespace
}  // namespace tenon
