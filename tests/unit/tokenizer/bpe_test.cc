#include "core/tokenizer/models/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Vocabulary vocabulary_of(const std::vector<std::string>& pieces) {
  std::vector<Vocabulary::Entry> entries;
  for (const auto& piece : pieces) {
    entries.push_back({piece, static_cast<int64_t>(entries.size())});
  }
  auto vocabulary = Vocabulary::create(entries);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  return *std::move(vocabulary);
}

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  std::vector<TokenId> ids;
  const Status status = bpe.encode(word, ids);
  EXPECT_TRUE(status.ok()) << status.message();
  return ids;
}

// The definition: merge the pair of the lowest rank, of these the leftmost, until none is left.
std::vector<Symbol> merged_slowly(const PairTable& rules, std::vector<Symbol> symbols) {
  while (true) {
    size_t best = symbols.size();
    const MergeRule* rule = nullptr;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const MergeRule* found = rules.find(symbols[i], symbols[i + 1]);
      if (found != nullptr && (rule == nullptr || found->rank < rule->rank)) {
        rule = found;
        best = i;
      }
    }
    if (rule == nullptr) return symbols;
    symbols[best] = rule->result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Random rules in which, as in a vocabulary, what a pair gives depends on its text alone.
PairTable random_rules(std::mt19937& random, std::vector<std::string>& texts) {
  PairTable rules(400);
  std::uniform_int_distribution<size_t> rank(0, 150);
  for (int i = 0; i < 200; ++i) {
    const size_t left = random() % texts.size();
    const size_t right = random() % texts.size();
    const std::string text = texts[left] + texts[right];
    const auto known = std::find(texts.begin(), texts.end(), text);
    const auto result = static_cast<Symbol>(known - texts.begin());
    if (known == texts.end()) texts.push_back(text);
    EXPECT_TRUE(rules
                    .insert(static_cast<Symbol>(left), static_cast<Symbol>(right),
                            {static_cast<uint32_t>(rank(random)), result})
                    .ok());
  }
  return rules;
}

TEST(BpeMerge, agrees_with_its_definition_for_short_and_long_words) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> texts{"a", "b", "c"};
    const PairTable rules = random_rules(random, texts);
    for (const size_t length : {1u, 2u, 5u, 31u, 32u, 33u, 34u, 100u, 300u}) {
      std::vector<Symbol> symbols(length);
      for (Symbol& symbol : symbols) symbol = static_cast<Symbol>(random() % 3);
      const std::vector<Symbol> expected = merged_slowly(rules, symbols);
      merge_symbols(rules, symbols);
      EXPECT_EQ(symbols, expected) << "round " << round << ", length " << length;
    }
  }
}

TEST(Bpe, merges_in_the_order_of_the_list) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "bc", "ab"});
  const std::vector<Bpe::Merge> merges{{"b", "c"}, {"a", "b"}};
  const auto bpe = Bpe::from_merges(vocabulary, merges, {});
  ASSERT_TRUE(bpe.ok());
  EXPECT_THAT(encode(*bpe, "abc"), ElementsAre(0, 3));
  EXPECT_THAT(encode(*bpe, "abab"), ElementsAre(4, 4));
}

TEST(Bpe, takes_a_whole_word_only_when_merging_forms_it_or_merges_are_ignored) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "abc"});
  auto merging = Bpe::from_merges(vocabulary, {}, {});
  for (int again = 0; again < 3; ++again)
    EXPECT_THAT(encode(*merging, "abc"), ElementsAre(0, 1, 2));
  auto ignoring = Bpe::from_merges(vocabulary, {}, {.unknown_piece = "", .ignore_merges = true});
  EXPECT_THAT(encode(*ignoring, "abc"), ElementsAre(3));
  EXPECT_THAT(encode(*ignoring, "abca"), ElementsAre(0, 1, 2, 0));
}

TEST(Bpe, names_the_piece_that_a_merge_lacks) {
  const Vocabulary vocabulary = vocabulary_of({"a", "b"});
  const std::vector<Bpe::Merge> merges{{"a", "b"}};
  const auto bpe = Bpe::from_merges(vocabulary, merges, {});
  ASSERT_FALSE(bpe.ok());
  EXPECT_EQ(bpe.status().message(),
            "merge 1 joins 'a' and 'b', but the vocabulary has no piece 'ab'");
}

TEST(Bpe, drops_names_or_fuses_unknown_characters) {
  const Vocabulary vocabulary = vocabulary_of({"a", "?"});
  EXPECT_THAT(encode(*Bpe::from_merges(vocabulary, {}, {}), "axya"), ElementsAre(0, 0));
  EXPECT_THAT(encode(*Bpe::from_merges(vocabulary, {}, {.unknown_piece = "?"}), "axya"),
              ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(
      encode(*Bpe::from_merges(vocabulary, {}, {.unknown_piece = "?", .fuse_unknown = true}),
             "axya"),
      ElementsAre(0, 1, 0));
}

TEST(Bpe, says_so_when_even_the_unknown_token_is_unknown) {
  const Vocabulary vocabulary = vocabulary_of({"a"});
  const auto bpe = Bpe::from_merges(vocabulary, {}, {.unknown_piece = "<unk>"});
  std::vector<TokenId> ids;
  EXPECT_THAT(std::string(bpe->encode("ab", ids).message()),
              HasSubstr("has the character 'b', which has no token; the tokenizer's unknown token "
                        "'<unk>' is not in its vocabulary"));
}

TEST(Bpe, falls_back_to_bytes_only_where_all_bytes_have_tokens) {
  const Vocabulary vocabulary = vocabulary_of({"a", "?", "<0xC3>", "<0xA9>"});
  const auto bpe = Bpe::from_merges(vocabulary, {}, {.unknown_piece = "?", .byte_fallback = true});
  EXPECT_THAT(encode(*bpe, "a\xC3\xA9"), ElementsAre(0, 2, 3));
  EXPECT_THAT(encode(*bpe, "\xC3\xA8"), ElementsAre(1));
  EXPECT_THAT(encode(*bpe, escape_bytes("\xA9")), ElementsAre(3));
}

TEST(Bpe, merges_scored_pieces_best_first_and_leftmost_among_equals) {
  const Vocabulary vocabulary = vocabulary_of({"?", "a", "b", "ab", "ba", "aba"});
  const std::vector<Bpe::ScoredPiece> pieces{{1, 0}, {2, 0}, {3, -2}, {4, -1}, {5, -3}};
  const auto bpe = Bpe::from_scores(vocabulary, pieces, {.unknown_piece = "?"});
  EXPECT_THAT(encode(*bpe, "abab"), ElementsAre(5, 2));
  const std::vector<Bpe::ScoredPiece> equal{{1, 0}, {2, 0}, {3, -1}, {4, -1}};
  EXPECT_THAT(encode(*Bpe::from_scores(vocabulary, equal, {.unknown_piece = "?"}), "aba"),
              ElementsAre(3, 1));
}

TEST(Bpe, forms_scored_pieces_from_characters_that_are_no_pieces) {
  const Vocabulary vocabulary = vocabulary_of({"?", "q", "qu"});
  const std::vector<Bpe::ScoredPiece> pieces{{1, 0}, {2, -1}};
  const auto bpe =
      Bpe::from_scores(vocabulary, pieces, {.unknown_piece = "?", .fuse_unknown = true});
  EXPECT_THAT(encode(*bpe, "quqxu"), ElementsAre(2, 1, 0));
}

TEST(Bpe, takes_unused_pieces_apart_again) {
  const Vocabulary vocabulary = vocabulary_of({"?", "a", "b", "ab", "abb"});
  const std::vector<Bpe::ScoredPiece> pieces{{1, 0}, {2, 0}, {3, -1, true}, {4, -2}};
  const auto bpe = Bpe::from_scores(vocabulary, pieces, {.unknown_piece = "?"});
  EXPECT_THAT(encode(*bpe, "ab"), ElementsAre(1, 2));
  EXPECT_THAT(encode(*bpe, "abb"), ElementsAre(4));
}

TEST(Bpe, refuses_scores_that_are_no_numbers_and_endless_pieces) {
  const Vocabulary vocabulary = vocabulary_of({"a", std::string(600, 'a')});
  const std::vector<Bpe::ScoredPiece> nan{{0, std::numeric_limits<float>::quiet_NaN()}};
  EXPECT_THAT(std::string(Bpe::from_scores(vocabulary, nan, {}).status().message()),
              HasSubstr("is not a number"));
  const std::vector<Bpe::ScoredPiece> endless{{1, 0}};
  EXPECT_THAT(std::string(Bpe::from_scores(vocabulary, endless, {}).status().message()),
              HasSubstr("has 600 bytes: at most 512 are supported"));
}

TEST(Vocabulary, refuses_contradictions_and_ids_that_would_need_huge_tables) {
  const auto message = [](const std::vector<Vocabulary::Entry>& entries) {
    return std::string(Vocabulary::create(entries).status().message());
  };
  EXPECT_EQ(message({{"a", 0}, {"b", 0}}), "the id 0 is given to both 'a' and 'b'");
  EXPECT_EQ(message({{"a", 0}, {"a", 1}}), "the piece 'a' has both the ids 0 and 1");
  EXPECT_EQ(message({{"", 3}}), "the piece with id 3 is empty");
  EXPECT_EQ(message({{"\xFF", 3}}), "the piece with id 3 is not valid UTF-8");
  EXPECT_THAT(message({{"a", 2147483647}}), HasSubstr("has the id 2147483647; for this vocabulary "
                                                      "ids run from 0 to 1048592 at most"));
  EXPECT_THAT(message({{"a", -1}}), HasSubstr("has the id -1"));
}

TEST(Vocabulary, has_gaps_that_nothing_finds) {
  const auto vocabulary = Vocabulary::create({{"a", 0}, {"b", 5}});
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->size(), 6u);
  EXPECT_EQ(vocabulary->piece(3), "");
  EXPECT_EQ(vocabulary->find("b"), 5);
  EXPECT_EQ(vocabulary->find(""), std::nullopt);
  EXPECT_EQ(Vocabulary().find("a"), std::nullopt);
}

}  // namespace
}  // namespace tenon::tok
