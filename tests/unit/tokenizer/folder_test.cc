// A model's folder: which file counts, and what the configuration next to it changes.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("tenon_tokenizer_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& file, const std::string& content) {
    std::ofstream(folder_ / file, std::ios::binary) << content;
  }
  void write_sentencepiece() { write("tokenizer.model", read_file(data_path("spm_llama.model"))); }

  std::unique_ptr<Tokenizer> load() { return must(Tokenizer::load(folder_.string())); }
  std::string refusal() {
    return std::string(Tokenizer::load(folder_.string()).status().message());
  }

  fs::path folder_;
};

TEST_F(Folder, without_a_tokenizer_says_what_is_missing) {
  EXPECT_EQ(refusal(), "'" + folder_.string() +
                           "' has no tokenizer.json and no tokenizer.model; one of them must be "
                           "there");
}

TEST_F(Folder, a_pointer_of_git_lfs_is_called_by_its_name) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
  for (const char* file : {"tokenizer.model", "tokenizer.json"}) {
    write(file, pointer);
    EXPECT_THAT(refusal(), HasSubstr(std::string(file) +
                                     ": is a Git LFS pointer of 63 bytes to a file of 7; expected "
                                     "the file itself"));
  }
}

TEST_F(Folder, with_both_files_reads_the_json) {
  write("tokenizer.json", tiny_json().dump());
  write("tokenizer.model", "not read");
  EXPECT_EQ(load()->vocab_size(), 8u);
}

TEST_F(Folder, names_the_tokens_that_begin_and_end_a_sequence) {
  write("tokenizer.json", tiny_json().dump());
  write("special_tokens_map.json", R"({"bos_token": "a", "eos_token": {"content": "b"}})");
  write("tokenizer_config.json", R"({"eos_token": {"__type": "AddedToken", "content": "c"}})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->eos(), 2);  // the configuration counts before the map
  EXPECT_THAT(ids_of(*tokenizer, "d"), ElementsAre(3));
}

TEST_F(Folder, every_file_may_name_an_end_as_a_text_an_object_or_a_list) {
  write("tokenizer.json", tiny_json().dump());
  write("special_tokens_map.json", R"({"eos_token": {"content": "b"}})");
  write("tokenizer_config.json", R"({"eos_token": ["c", {"content": "d"}]})");
  const auto tokenizer = load();
  EXPECT_THAT(end_tokens(tokenizer->ends()), ElementsAre(1, 2, 3));
  EXPECT_THAT(tokenizer->ends()[0].named_by, ElementsAre("special_tokens_map.json"));
  EXPECT_THAT(tokenizer->ends()[1].named_by, ElementsAre("tokenizer_config.json"));
  EXPECT_EQ(tokenizer->eos(), 2);
  write("special_tokens_map.json", R"({"eos_token": null})");
  write("tokenizer_config.json", R"({"eos_token": null, "bos_token": ["a", "b"]})");
  EXPECT_THAT(refusal(), HasSubstr("'bos_token' is a list of 2; expected one token"));
}

TEST_F(Folder, an_end_that_is_no_token_is_said_by_its_name) {
  write("tokenizer.json", tiny_json().dump());
  write("tokenizer_config.json", R"({"eos_token": "<|gone|>"})");
  const auto tokenizer = load();
  EXPECT_TRUE(tokenizer->ends().empty());
  ASSERT_EQ(tokenizer->warnings().size(), 1u);
  EXPECT_THAT(tokenizer->warnings()[0],
              HasSubstr("tokenizer_config.json names the eos_token '<|gone|>', which is no token"));
}

TEST_F(Folder, merges_that_are_gone_are_worth_a_word) {
  auto document = tiny_json();
  document["model"]["merges"] = nlohmann::json::array();
  write("tokenizer.json", document.dump());
  const auto tokenizer = load();
  ASSERT_EQ(tokenizer->warnings().size(), 1u);
  EXPECT_THAT(tokenizer->warnings()[0], HasSubstr("model.merges is empty"));
}

TEST_F(Folder, what_stands_for_unknown_text_is_no_piece_that_needs_merges) {
  auto document = tiny_json();
  auto& model = document["model"];
  model["merges"] = nlohmann::json::array();
  model["vocab"] = {{"a", 0}, {"b", 1}, {"<unk>", 2}};
  model["unk_token"] = "<unk>";
  document["added_tokens"] = nlohmann::json::array();
  write("tokenizer.json", document.dump());
  EXPECT_TRUE(load()->warnings().empty());
}

TEST_F(Folder, adds_special_tokens_where_the_post_processor_adds_none) {
  write("tokenizer.json", tiny_json().dump());
  write("tokenizer_config.json", R"({"bos_token": "a", "eos_token": "b", "add_bos_token": true,
                                     "add_eos_token": true})");
  EXPECT_THAT(ids_of(*load(), "d"), ElementsAre(0, 3, 1));
}

TEST_F(Folder, believes_a_post_processor_before_the_configuration) {
  auto document = tiny_json();
  document["post_processor"] =
      nlohmann::json::parse(R"({"type": "BertProcessing", "sep": ["d", 3], "cls": ["c", 2]})");
  write("tokenizer.json", document.dump());
  write("tokenizer_config.json", R"({"bos_token": "a", "add_bos_token": true})");
  EXPECT_THAT(ids_of(*load(), "b"), ElementsAre(2, 1, 3));
}

TEST_F(Folder, knows_tokens_that_only_the_configuration_names) {
  write("tokenizer.json", tiny_json().dump());
  write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "9": {"content": "<x>", "special": true, "normalized": false}}, "eos_token": "<x>"})");
  const auto tokenizer = load();
  EXPECT_THAT(ids_of(*tokenizer, "a<x>"), ElementsAre(0, 9));
  EXPECT_EQ(tokenizer->eos(), 9);
}

TEST_F(Folder, with_sentencepiece_puts_the_first_token_in_front_unless_told_otherwise) {
  write_sentencepiece();
  EXPECT_EQ(ids_of(*load(), "fox").front(), 1);
  write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  const auto ids = ids_of(*load(), "fox");
  EXPECT_NE(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
}

TEST_F(Folder, with_sentencepiece_takes_more_tokens_from_the_configuration) {
  write_sentencepiece();
  write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "1": {"content": "<s>", "special": true}, "500": {"content": "<end>", "special": true}}})");
  const auto tokenizer = load();
  EXPECT_EQ(ids_of(*tokenizer, "fox<end>").back(), 500);
  EXPECT_EQ(tokenizer->vocab_size(), 501u);
}

TEST_F(Folder, names_the_file_that_is_at_fault) {
  write("tokenizer.json", "{");
  EXPECT_THAT(refusal(), HasSubstr(folder_.string() + "/tokenizer.json: not JSON"));
  write("tokenizer.json", tiny_json().dump());
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})");
  EXPECT_EQ(refusal(), folder_.string() +
                           "/tokenizer_config.json: added_tokens_decoder.x: expected an id as the "
                           "key");
}

}  // namespace
}  // namespace tenon
