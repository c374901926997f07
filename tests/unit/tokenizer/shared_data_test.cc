// Published tokenizers, where the shared data lies next to the project.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folders.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string shared_folder() {
  const char* given = std::getenv("TENON_SHARED_DATA");
  const fs::path folder =
      given != nullptr ? fs::path(given) : fs::path(source_folder()) / ".." / "shared" / "data";
  return (folder / "tokenizers").string() + "/";
}

#define SKIP_WITHOUT_SHARED_DATA() \
  if (!fs::exists(shared_folder())) GTEST_SKIP() << "no shared data"

std::unique_ptr<Tokenizer> shared(const std::string& file) {
  return must(read_tokenizer(read_file(shared_folder() + file), file));
}

std::vector<std::string> texts_of(const std::string& file) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string all = read_file(file);
  std::vector<std::string> texts;
  size_t begin = 0;
  for (size_t at = all.find(separator); at != std::string::npos; at = all.find(separator, begin)) {
    texts.push_back(all.substr(begin, at - begin));
    begin = at + separator.size();
  }
  return texts;  // the last one, too, has a separator after it
}

// The cases of llama.cpp: texts, and their ids a line each, without <s>.
void expect_cases(const Tokenizer& tokenizer, const std::string& name) {
  const std::string path = shared_folder() + "ggml-vocab-" + name + ".gguf";
  const std::vector<std::string> texts = texts_of(path + ".inp");
  std::istringstream lines(read_file(path + ".out"));
  ASSERT_GT(texts.size(), 40u);
  for (const std::string& text : texts) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream numbers(line);
    const std::vector<TokenId> expected{std::istream_iterator<TokenId>(numbers), {}};
    EXPECT_EQ(ids_of(tokenizer, text, {.add_special = false, .parse_special = false}), expected)
        << text;
  }
}

void expect_article(const Tokenizer& tokenizer, const std::string& file) {
  const auto golden = nlohmann::json::parse(read_file(shared_folder() + "expected/" + file));
  const auto ids = ids_of(tokenizer, golden["text"].get<std::string>());
  EXPECT_EQ(ids, golden["token_ids"].get<std::vector<TokenId>>());
  EXPECT_EQ(*tokenizer.decode(ids, /*skip_special=*/false),
            golden["decoded_text"].get<std::string>());
}

TEST(SharedData, gpt2_agrees_with_the_published_cases) {
  SKIP_WITHOUT_SHARED_DATA();
  const auto tokenizer = shared("gpt2_tokenizer.json");
  EXPECT_EQ(tokenizer->vocab_size(), 50257u);
  expect_cases(*tokenizer, "gpt-2");
  expect_article(*tokenizer, "gpt2_encoded_tokens.json");
}

TEST(SharedData, llama2_agrees_with_the_published_cases_in_both_formats) {
  SKIP_WITHOUT_SHARED_DATA();
  for (const char* file : {"llama2/tokenizer.model", "llama2/swift_llama_tokenizer.json"}) {
    const auto tokenizer = shared(file);
    EXPECT_EQ(tokenizer->vocab_size(), 32000u);
    expect_cases(*tokenizer, "llama-spm");
    expect_article(*tokenizer, "llama_encoded.json");
  }
}

TEST(SharedData, gguf_vocabularies_agree_with_the_published_cases) {
  SKIP_WITHOUT_SHARED_DATA();
  for (const char* name : {"gpt-2", "llama-spm", "deepseek-llm", "starcoder", "phi-3"}) {
    SCOPED_TRACE(name);
    const std::string path = shared_folder() + "ggml-vocab-" + name + ".gguf";
    const auto tokenizer = Tokenizer::load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    expect_cases(**tokenizer, name);
    for (const std::string& text : texts_of(path + ".inp")) {
      const auto ids = ids_of(**tokenizer, text, {.add_special = false, .parse_special = false});
      EXPECT_EQ(*(*tokenizer)->decode(ids), text);
    }
  }
}

TEST(SharedData, a_file_whose_merges_lost_their_no_break_spaces_is_refused) {
  SKIP_WITHOUT_SHARED_DATA();
  const auto tokenizer = Tokenizer::load(shared_folder() + "llama2");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.status().message().find("merge 18918 is '   '"), std::string_view::npos);
}

TEST(SharedData, phi2_keeps_runs_of_spaces_as_its_added_tokens) {
  SKIP_WITHOUT_SHARED_DATA();
  const auto loaded = Tokenizer::load(shared_folder() + "phi-2");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.eos(), 50256);
  const std::string text = "def f():\n        return 1\n" + std::string(40, ' ') + "x";
  const auto ids = ids_of(tokenizer, text);
  // As the tokenizers library has it: eight spaces are 50280; forty are 50257 (31) and 50279 (9).
  EXPECT_EQ(ids,
            (std::vector<TokenId>{4299, 277, 33529, 198, 50280, 7783, 352, 198, 50257, 50279, 87}));
  EXPECT_EQ(*tokenizer.decode(ids), text);
}

TEST(SharedData, the_small_model_s_sentencepiece_file_loads_from_its_folder) {
  const std::string folder = shared_folder() + "../models/stories260k";
  if (!fs::exists(folder)) GTEST_SKIP() << "no shared data";
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 512u);
  EXPECT_EQ((*tokenizer)->bos(), 1);
  const auto ids = ids_of(**tokenizer, "Once upon a time");
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 403, 407, 261, 378}));
}

}  // namespace
}  // namespace tenon
