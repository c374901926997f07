// Text is bytes: what goes in comes out, whatever it is, at once and token by token.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "core/base/utf8.h"
#include "core/unicode/utf8.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

std::string random_bytes(std::mt19937& random, size_t length) {
  std::string bytes(length, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Bytes, letters, whitespace and pieces of characters, so that valid and invalid text mix.
std::string mixed_text(std::mt19937& random) {
  static const std::vector<std::string> parts{
      "the",          " fox",      "\n",           "  ",
      "\xC3\xA9",     "e\xCC\x81", "\xE6\x9C\x88", "\xF0\x9F\xA6\x8A",
      "\xF0\x9F",     "\xE6",      "\xFF",         std::string(1, '\0'),
      "\xED\xB2\x80", "12",        "'s",           "\xC2\xA0"};
  std::string text;
  for (size_t i = random() % 24; i > 0; --i) text += parts[random() % parts.size()];
  return text;
}

// Fixtures whose vocabulary can say every byte and that change nothing before encoding. Where a
// space is put in front, decoding takes it away again.
class EveryByte : public testing::TestWithParam<std::string> {};

TEST_P(EveryByte, comes_back_exactly) {
  const auto tokenizer = fixture(GetParam());
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::string text = round % 2 == 0 ? mixed_text(random) : random_bytes(random, round);
    const auto ids = ids_of(*tokenizer, text);
    EXPECT_EQ(*tokenizer->decode(ids), text);
    EXPECT_EQ(streamed(*tokenizer, ids, true), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryByte,
                         testing::Values("gpt2.json", "llama3.json", "o200k.json", "deepseek.json",
                                         "smollm.json", "llama2.json", "gemma.json",
                                         "spm_llama.model"),
                         [](const auto& file) {
                           return file.param.substr(0, file.param.find('.'));
                         });

TEST(Streaming, holds_a_character_back_until_it_is_complete) {
  const auto tokenizer = fixture("spm_llama.model");
  const auto ids = ids_of(*tokenizer,
                          "a\xF0\x9F\xA6\x8A"
                          "b",
                          {.add_special = false});
  StreamingDetokenizer stream(*tokenizer);
  std::vector<std::string> parts;
  for (const TokenId id : ids) parts.push_back(stream.push(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "", "\xF0\x9F\xA6\x8A", "b"}));
  EXPECT_EQ(stream.finish(), "");
}

TEST(Streaming, lets_bytes_go_as_they_are_once_they_cannot_become_a_character) {
  const auto tokenizer = fixture("spm_llama.model");
  const TokenId lead = *tokenizer->find("<0xF0>");
  const TokenId letter = *tokenizer->find("a");
  StreamingDetokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(lead), "");
  EXPECT_EQ(stream.push(letter),
            "\xF0"
            "a");
  EXPECT_EQ(stream.push(lead), "");
  EXPECT_EQ(stream.finish(), "\xF0");
}

TEST(Streaming, never_ends_in_the_middle_of_a_character_of_valid_text) {
  std::mt19937 random(3);
  for (const char* file : {"gpt2.json", "llama2.json", "spm_llama.model"}) {
    const auto tokenizer = fixture(file);
    for (int round = 0; round < 50; ++round) {
      std::string text;
      for (int i = 0; i < 20; ++i) tok::append_rune(text, 1 + random() % 0xD000);
      StreamingDetokenizer stream(*tokenizer);
      for (const TokenId id : ids_of(*tokenizer, text)) {
        EXPECT_TRUE(is_utf8(stream.push(id)));
      }
    }
  }
}

TEST(Streaming, strips_the_first_space_only_once_and_skips_special_tokens) {
  const auto tokenizer = fixture("llama2.json");
  const TokenId the = *tokenizer->find("\xE2\x96\x81the");
  StreamingDetokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(*tokenizer->bos()), "");
  EXPECT_EQ(stream.push(the), "the");
  EXPECT_EQ(stream.push(the), " the");
  EXPECT_EQ(tokenizer->token_bytes(the), " the");
}

TEST(Streaming, ignores_ids_outside_of_the_vocabulary) {
  const auto tokenizer = fixture("gpt2.json");
  StreamingDetokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(-1) + stream.push(1 << 30), "");
}

TEST(Decoding, refuses_ids_outside_of_the_vocabulary) {
  const auto tokenizer = from_json(tiny_json());
  for (const TokenId id : {-1, 8, 2147483647}) {
    const auto text = tokenizer->decode(std::vector<TokenId>{0, id});
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().message(), "token id " + std::to_string(id) +
                                           " is outside of the vocabulary; ids run from 0 to 7");
  }
}

TEST(Decoding, strips_up_to_the_given_number_of_characters_at_either_end) {
  auto document = tiny_json();
  document["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 2, "stop": 1}]})");
  const auto tokenizer = from_json(document);
  const auto decoded = [&](const std::vector<TokenId>& ids) {
    const std::string text = *tokenizer->decode(ids);
    EXPECT_EQ(streamed(*tokenizer, ids, true), text);
    return text;
  };
  EXPECT_EQ(decoded({0, 0, 0, 1, 0, 0}), "aba");
  EXPECT_EQ(decoded({0, 1}), "b");
  EXPECT_EQ(decoded({1, 0, 1, 0}), "bab");
  EXPECT_EQ(decoded({0, 0, 0}), "");
}

TEST(Decoding, gives_added_tokens_as_they_are_spelled_among_byte_level_pieces) {
  auto document = nlohmann::json::parse(read_file(data_path("gpt2.json")));
  document["added_tokens"].push_back({{"id", 400}, {"content", "\xC3\xBC\xC3\xA9"}});
  const auto tokenizer = from_json(document);
  const auto ids = ids_of(*tokenizer, "F\xC3\xBC\xC3\xA9r");
  EXPECT_EQ(ids[1], 400);
  EXPECT_EQ(*tokenizer->decode(ids), "F\xC3\xBC\xC3\xA9r");
}

TEST(Threads, share_a_tokenizer) {
  for (const char* file : {"llama3.json", "spm_rules.model"}) {
    const auto tokenizer = fixture(file);
    const std::string text =
        "The little fox went to the forest, there and then. "
        "12 of 2048?";
    const auto alone = ids_of(*fixture(file), text);
    std::vector<std::vector<TokenId>> results(4);
    {
      std::vector<std::jthread> threads;
      for (auto& result : results) {
        threads.emplace_back([&] {
          for (int i = 0; i < 50; ++i) result = *tokenizer->encode(text);
        });
      }
    }
    for (const auto& result : results) EXPECT_EQ(result, alone);
  }
}

}  // namespace
}  // namespace tenon
