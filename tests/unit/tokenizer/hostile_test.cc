// Damaged files and texts made to be slow. That these tests end is what they check.
#include <random>

#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

const std::vector<std::string>& families() {
  static const std::vector<std::string> files{
      "llama3.json", "llama2.json",     "mistral.json",    "gemma.json",
      "plain.json",  "spm_llama.model", "spm_rules.model", "spm_surface.model"};
  return files;
}

// A damaged file is refused, or makes a tokenizer that keeps its promises.
void expect_sane(const std::string& content, const std::string& name) {
  const auto tokenizer = read_tokenizer(content, name);
  if (!tokenizer.ok()) {
    EXPECT_FALSE(tokenizer.status().message().empty());
    return;
  }
  const auto ids = (*tokenizer)->encode("The fox <s>\xF0\x9F\xA6\x8A\xFF 12");
  if (!ids.ok()) return;
  const auto text = (*tokenizer)->decode(*ids);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(streamed(**tokenizer, *ids, true), *text);
}

TEST(HostileFiles, cut_off_anywhere_are_survived) {
  for (const std::string& name : families()) {
    const std::string content = read_file(data_path(name));
    for (size_t length = 0; length < content.size(); length += 1 + length / 40) {
      expect_sane(content.substr(0, length), name);
    }
  }
}

TEST(HostileFiles, with_flipped_bits_are_survived) {
  std::mt19937 random(11);
  for (const std::string& name : families()) {
    const std::string content = read_file(data_path(name));
    for (int round = 0; round < 300; ++round) {
      std::string damaged = content;
      for (size_t flips = 1 + random() % 3; flips > 0; --flips) {
        damaged[random() % damaged.size()] ^= static_cast<char>(1u << (random() % 8));
      }
      expect_sane(damaged, name);
    }
  }
}

TEST(HostileFiles, with_members_exchanged_are_survived) {
  std::mt19937 random(12);
  const auto other = nlohmann::json::parse(read_file(data_path("phi3.json")));
  const std::vector<nlohmann::json> values{nullptr,
                                           -1,
                                           1e300,
                                           "",
                                           "x",
                                           nlohmann::json::array(),
                                           nlohmann::json::object(),
                                           true,
                                           other["decoder"],
                                           other["added_tokens"],
                                           2147483647,
                                           9007199254740993u};
  for (const std::string& name : families()) {
    if (!name.ends_with(".json")) continue;
    const auto document = nlohmann::json::parse(read_file(data_path(name)));
    const auto flat = document.flatten();
    for (int round = 0; round < 150; ++round) {
      auto damaged = document;
      auto victim = flat.begin();
      std::advance(victim, static_cast<ptrdiff_t>(random() % flat.size()));
      nlohmann::json::json_pointer where(victim.key());
      for (size_t up = random() % 3; up > 0 && !where.empty(); --up) where.pop_back();
      damaged[where] = values[random() % values.size()];
      expect_sane(damaged.dump(), name);
    }
  }
}

class HostileText : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { tokenizer_ = fixture(GetParam()); }
  size_t tokens(const std::string& text) { return ids_of(*tokenizer_, text).size(); }
  std::unique_ptr<Tokenizer> tokenizer_;
};

constexpr size_t kMillion = 1'000'000;

TEST_P(HostileText, of_one_long_run_is_encoded) {
  for (const char c : {'a', ' ', '\n', '-', '\xFF'}) {
    tokens(std::string(kMillion, c));
  }
}

TEST_P(HostileText, of_random_bytes_is_encoded) {
  std::mt19937 random(13);
  std::string bytes(kMillion, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  tokens(bytes);
  for (char& byte : bytes) byte = static_cast<char>('a' + (byte & 15));
  EXPECT_GT(tokens(bytes), kMillion / 10);
}

TEST_P(HostileText, of_marks_and_special_tokens_is_encoded) {
  std::string marks = "a";
  std::string specials;
  while (marks.size() < kMillion) marks += marks.size() % 4 == 1 ? "\xCC\x81" : "\xCC\xA7";
  while (specials.size() < kMillion) specials += "<s> <|end|>\n";
  tokens(marks);
  EXPECT_GT(tokens(specials), specials.size() / 12);
}

INSTANTIATE_TEST_SUITE_P(Families, HostileText,
                         testing::Values("llama3.json", "qwen2.json", "deepseek.json", "gemma.json",
                                         "mistral.json", "spm_llama.model"),
                         [](const auto& file) {
                           return file.param.substr(0, file.param.find('.'));
                         });

}  // namespace
}  // namespace tenon
