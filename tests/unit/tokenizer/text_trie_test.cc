#include "core/tokenizer/models/text_trie.h"

#include <gtest/gtest.h>

#include <random>

#include "core/tokenizer/stages/added_tokens.h"

namespace tenon::tok {
namespace {

TextTrie built(const std::vector<std::string>& texts) {
  TextTrie trie;
  for (size_t i = 0; i < texts.size(); ++i) trie.add(texts[i], static_cast<TokenId>(i));
  trie.build();
  return trie;
}

// Every text is looked for at every position.
std::vector<TokenId> found_slowly(const std::vector<std::string>& texts, std::string_view text) {
  std::vector<TokenId> ids;
  for (size_t at = 0; at < text.size(); ++at) {
    size_t best = texts.size();
    for (size_t i = 0; i < texts.size(); ++i) {
      const bool longer = best == texts.size() || texts[i].size() > texts[best].size();
      if (!texts[i].empty() && longer && text.substr(at).starts_with(texts[i])) best = i;
    }
    ids.push_back(best == texts.size() ? kNoToken : static_cast<TokenId>(best));
  }
  return ids;
}

std::vector<TokenId> found(const TextTrie& trie, std::string_view text) {
  TextScan scan(trie, text);
  std::vector<TokenId> ids;
  for (size_t at = 0; at < text.size(); ++at) ids.push_back(scan.longest(at).id);
  return ids;
}

uint64_t steps_of(const TextTrie& trie, std::string_view text) {
  TextScan scan(trie, text);
  for (size_t at = 0; at < text.size(); ++at) scan.longest(at);
  return scan.steps();
}

std::string random_text(std::mt19937& random, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back("aab"[random() % 3]);
  return text;
}

TEST(TextTrie, finds_the_longest_text_at_every_position) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < 1 + random() % 12; ++i)
      texts.push_back(random_text(random, random() % 7));
    const std::string text = random_text(random, random() % 60);
    EXPECT_EQ(found(built(texts), text), found_slowly(texts, text)) << "round " << round;
  }
}

TEST(TextTrie, finds_texts_wherever_the_parts_end_that_it_reads_at_a_time) {
  std::mt19937 random(8);
  std::vector<std::string> texts = {"a", "ab", random_text(random, 40), random_text(random, 3000)};
  std::string text;
  while (text.size() < 60'000) text += texts[random() % texts.size()];
  EXPECT_EQ(found(built(texts), text), found_slowly(texts, text));
}

TEST(TextTrie, keeps_the_first_of_equal_texts_and_leaves_empty_ones_out) {
  EXPECT_EQ(found(built({"", "ab", "ab"}), "xab"), (std::vector<TokenId>{kNoToken, 1, kNoToken}));
  EXPECT_TRUE(built({""}).empty());
}

TEST(TextTrie, may_be_asked_for_some_positions_alone) {
  const TextTrie trie = built({"ab", "b"});
  const std::string text = std::string(20'000, 'x') + "ab";
  TextScan scan(trie, text);
  EXPECT_EQ(scan.longest(3).bytes, 0u);
  EXPECT_EQ(scan.longest(20'000).bytes, 2u);
  EXPECT_EQ(scan.longest(20'001).bytes, 1u);
}

// Texts that a walk from every position would follow for a thousand bytes, past hundreds of
// neighbours at each, without coming to an end of one.
TEST(TextTrie, costs_steps_in_proportion_to_texts_however_they_begin) {
  std::vector<std::string> texts = {std::string(1000, 'b') + "!"};
  size_t bytes = 0;
  for (size_t depth = 0; depth < 250; ++depth) {
    for (int other = 1; other < 200; ++other) {
      if (other == 'b') continue;
      texts.push_back(std::string(depth, 'b') + static_cast<char>(other) + "~");
    }
  }
  for (const std::string& text : texts) bytes += text.size();
  const TextTrie trie = built(texts);
  EXPECT_GT(texts.size(), 49'000u);
  EXPECT_LT(trie.build_steps(), 2 * bytes);
  for (const char* of : {"b", "b!", "~b"}) {
    std::string text;
    while (text.size() < 100'000) text += of;
    EXPECT_LT(steps_of(trie, text), 3 * text.size()) << of;
  }
  EXPECT_LT(steps_of(trie, std::string(100'000, 'b') + "!"), 300'000u);
}

TEST(AddedTokens, take_a_bounded_amount_of_memory) {
  AddedTokens tokens;
  Status status;
  TokenId id = 0;
  while (status.ok()) {
    AddedToken token;
    token.id = id;
    token.content = token.spelling = std::to_string(id++) + std::string(1000, 'a');
    status = tokens.add(std::move(token));
    ASSERT_LT(id, 10'000);
  }
  EXPECT_GT(id, 8'000);
  EXPECT_TRUE(status.message().ends_with("at most 8388608 are supported")) << status.message();
}

}  // namespace
}  // namespace tenon::tok
