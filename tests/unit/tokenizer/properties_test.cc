// What holds for every text, tried on many.
#include <gmock/gmock.h>

#include <random>

#include "core/unicode/utf8.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;

// Byte-level tokenizers that change nothing before encoding.
class ByteLevel : public testing::TestWithParam<const char*> {
 protected:
  void expect_round_trip(const std::string& text) {
    const auto ids = ids_of(*tokenizer_, text, {.add_special = false, .parse_special = false});
    EXPECT_LE(ids.size(), text.size());
    EXPECT_EQ(*tokenizer_->decode(ids, /*skip_special=*/false), text);
    EXPECT_EQ(streamed(*tokenizer_, ids, false), text);
  }
  std::unique_ptr<Tokenizer> tokenizer_ = fixture(GetParam());
};

TEST_P(ByteLevel, gives_back_the_empty_text) {
  EXPECT_TRUE(ids_of(*tokenizer_, "", {.add_special = false}).empty());
  EXPECT_EQ(*tokenizer_->decode({}), "");
  const auto around = ids_of(*tokenizer_, "");
  EXPECT_EQ(*tokenizer_->decode(around), "");
}

TEST_P(ByteLevel, gives_back_every_byte_and_every_pair_of_bytes) {
  for (uint32_t first = 0; first < 256; ++first) {
    expect_round_trip(std::string(1, static_cast<char>(first)));
    for (uint32_t second = 0; second < 256; second += 5) {
      expect_round_trip({static_cast<char>(first), static_cast<char>(second)});
    }
  }
}

TEST_P(ByteLevel, gives_back_characters_of_all_planes) {
  std::mt19937 random(21);
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i) {
      const uint32_t bits = 7 + random() % 15;
      const uint32_t code = random() % std::min(1u << bits, 0x110000u);
      if (code < 0xD800 || code > 0xDFFF) tok::append_rune(text, code);
      if (random() % 8 == 0) text.push_back(static_cast<char>(random()));
    }
    expect_round_trip(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ByteLevel,
                         testing::Values("gpt2.json", "llama3.json", "o200k.json", "deepseek.json",
                                         "smollm.json", "falcon.json"),
                         [](const auto& file) {
                           const std::string name = file.param;
                           return name.substr(0, name.find('.'));
                         });

json random_stage(std::mt19937& random) {
  static const std::vector<json> stages = {
      {{"type", "NFKC"}},
      {{"type", "NFD"}},
      {{"type", "Lowercase"}},
      {{"type", "ByteLevel"}},
      {{"type", "StripAccents"}},
      {{"type", "Prepend"}, {"prepend", "ab \xEF\xB7\xBA"}},
      {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
      {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "bb"}},
      {{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", "a a"}},
      {{"type", "Replace"}, {"pattern", {{"Regex", ""}}}, {"content", "c"}},
      {{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", "ac"}},
      {{"type", "Replace"}, {"pattern", {{"Regex", "(a|b)+c"}}}, {"content", ""}}};
  return stages[random() % stages.size()];
}

TEST(RandomStages, make_no_more_of_a_text_than_its_size_allows_or_say_so) {
  std::mt19937 random(22);
  size_t refused = 0;
  for (int round = 0; round < 300; ++round) {
    auto document = tiny_json();
    json stages = json::array();
    // A few kinds over and over: of many, one undoes the other.
    const json kinds[] = {random_stage(random), random_stage(random)};
    for (size_t i = random() % 60; i > 0; --i) stages.push_back(kinds[random() % 2]);
    document["normalizer"] = {{"type", "Sequence"}, {"normalizers", stages}};
    const std::string text = std::string("ab c\xC3\xA9 A\xEF\xB7\xBA").substr(0, random() % 12);
    const auto ids = from_json(document)->encode(text);
    if (ids.ok()) {
      EXPECT_LE(ids->size(), 32 * text.size() + (64u << 10));
    } else {
      EXPECT_THAT(std::string(ids.status().message()),
                  AnyOf(HasSubstr("grows beyond"), HasSubstr("it takes more steps")));
      ++refused;
    }
  }
  EXPECT_GT(refused, 20u);
  EXPECT_LT(refused, 280u);
}

}  // namespace
}  // namespace tenon
