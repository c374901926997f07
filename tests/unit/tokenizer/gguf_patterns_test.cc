// The split patterns that names in GGUF files stand for, against what `tokenizers` makes of them.
#include "core/tokenizer/files/gguf_patterns.h"

#include <gmock/gmock.h>

#include "core/files/gguf_metadata.h"
#include "core/tokenizer/files/gguf_export.h"
#include "core/tokenizer/stages/pre_tokenizer.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

std::vector<std::string> words_of(std::span<const std::string_view> patterns,
                                  const std::string& text) {
  tok::PreTokenizer steps;
  for (const std::string_view pattern : patterns) {
    steps.add(tok::make_split(must(tok::Pattern::regex(pattern)), tok::SplitBehavior::isolated,
                              /*invert=*/false),
              "split");
  }
  tok::Allowance allowance(text.size());
  const tok::Pieces pieces = must(steps.apply(text, true, allowance));
  std::vector<std::string> words;
  for (const tok::Piece& piece : pieces.pieces) words.emplace_back(pieces.view(piece));
  return words;
}

TEST(SplitRules, cut_text_as_the_library_does) {
  const auto golden = nlohmann::json::parse(read_file(data_path("splits.json")));
  ASSERT_GE(golden["words"].size(), 18u);
  for (const auto& [name, expected] : golden["words"].items()) {
    const tok::SplitRule* rule = tok::find_split_rule(name);
    ASSERT_NE(rule, nullptr) << name;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto text = golden["texts"][i].get<std::string>();
      EXPECT_EQ(words_of(rule->patterns, text), expected[i].get<std::vector<std::string>>())
          << name << ": " << text;
    }
  }
}

TEST(SplitRules, in_other_notations_cut_text_at_the_same_places) {
  const auto golden = nlohmann::json::parse(read_file(data_path("splits.json")));
  const std::string_view notations[] = {
      R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
      R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
  for (const std::string_view notation : notations) {
    const std::string_view usual = tok::usual_notation(notation);
    EXPECT_NE(usual, notation);
    for (const auto& text : golden["texts"]) {
      EXPECT_EQ(words_of({{notation}}, text), words_of({{usual}}, text)) << text;
    }
  }
  EXPECT_EQ(tok::usual_notation("[a-z]+"), "[a-z]+");
}

TEST(SplitRules, are_found_by_each_of_their_names) {
  for (const char* name :
       {"falcon", "falcon-h1", "pixtral", "glm4", "hunyuan", "minerva-7b", "exaone4", "llama4",
        "llada-moe", "poro-chat", "joyai-llm", "cohere2moe"}) {
    EXPECT_NE(tok::find_split_rule(name), nullptr) << name;
  }
  EXPECT_EQ(tok::find_split_rule("whitespace"), nullptr);
  EXPECT_TRUE(tok::find_split_rule("pixtral")->adds_bos);
  EXPECT_FALSE(tok::find_split_rule("glm4")->adds_bos);
}

// Falcon's own tokenizer.json says it in other stages than the patterns of the name.
TEST(SplitRules, of_falcon_give_the_ids_of_its_tokenizer_json) {
  const TemporaryFolder folder;
  folder.write_file("tokenizer.json", read_file(data_path("falcon.json")));
  GgufMetadata written, keys;
  const auto expected = must(Tokenizer::load(folder.path()));
  ASSERT_TRUE(add_gguf_tokenizer(folder.path(), expected->vocab_size(), true, written).ok());
  const std::string head("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
  const auto file_of = [&](const GgufMetadata& metadata) {
    const uint64_t count = metadata.count();
    return head + std::string(reinterpret_cast<const char*>(&count), 8) + metadata.bytes();
  };
  const std::string bytes = file_of(written);
  const GgufFile file = must(GgufFile::parse(std::as_bytes(std::span(bytes))));
  for (const auto& [key, value] : file.metadata()) {
    if (key != "tokenizer.huggingface.json" && key != "tokenizer.ggml.pre") {
      keys.add_value(key, value);
    }
  }
  keys.add_text("tokenizer.ggml.pre", "falcon");
  const auto tokenizer = must(Tokenizer::load(folder.write_file("t.gguf", file_of(keys))));
  for (const auto& golden : nlohmann::json::parse(read_file(data_path("falcon.cases.json")))) {
    const auto text = golden["text"].get<std::string>();
    EXPECT_EQ(ids_of(*tokenizer, text), golden["ids"].get<std::vector<TokenId>>()) << text;
  }
}

}  // namespace
}  // namespace tenon
