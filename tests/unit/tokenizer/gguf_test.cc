// Tokenizers in GGUF files: the same ids as the files that they were made of.
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>

#include "core/files/gguf_metadata.h"
#include "core/tokenizer/files/gguf_export.h"
#include "core/tokenizer/files/gguf_patterns.h"
#include "core/tokenizer/files/gguf_tokenizer.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kTexts = {
    "Hello world",
    "  two spaces, and\ttabs\n\n\nand lines ",
    "I'LL say: don't we've 12345 7 things?",
    "Größe, naïve, 東京タワー, привет, 🦙🦙!",
    "x = y*2;  // comment\r\n",
    "",
    "\xff\xfe broken"};

std::string file_of(const GgufMetadata& metadata) {
  std::string out("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
  const uint64_t count = metadata.count();
  out.append(reinterpret_cast<const char*>(&count), 8);
  return out + metadata.bytes();
}

// Without `tokenizer.huggingface.json`: what is left for other programs.
GgufMetadata keys_alone(const GgufMetadata& metadata) {
  const std::string bytes = file_of(metadata);
  const GgufFile file = must(GgufFile::parse(std::as_bytes(std::span(bytes))));
  GgufMetadata out;
  for (const auto& [key, value] : file.metadata()) {
    if (key != "tokenizer.huggingface.json") out.add_value(key, value);
  }
  return out;
}

// A folder with the fixture as its tokenizer.
void write_folder(const TemporaryFolder& folder, const std::string& fixture_file) {
  const bool is_json = fixture_file.ends_with(".json");
  folder.write_file(is_json ? "tokenizer.json" : "tokenizer.model",
                    read_file(data_path(fixture_file)));
}

void expect_same(const Tokenizer& actual, const Tokenizer& expected) {
  for (const std::string& text : kTexts) {
    const auto ids = expected.encode(text), got = actual.encode(text);
    ASSERT_EQ(got.ok(), ids.ok()) << text;
    if (!ids.ok()) continue;
    EXPECT_EQ(*got, *ids) << text;
    EXPECT_EQ(*actual.decode(*ids), *expected.decode(*ids)) << text;
  }
}

class Fixture : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    write_folder(folder_, GetParam());
    expected_ = must(Tokenizer::load(folder_.path()));
    status_ = add_gguf_tokenizer(folder_.path(), expected_->vocab_size() + 3, true, metadata_)
                  .take_status();
  }
  // The kinds that GGUF files have words for.
  bool is_expressible() const { return expected_->kind() != "bpe"; }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> expected_;
  GgufMetadata metadata_;
  Status status_;
};

TEST_P(Fixture, gives_the_same_ids_from_a_gguf_file_and_from_a_folder_made_of_it) {
  if (!is_expressible()) {
    EXPECT_THAT(std::string(status_.message()), HasSubstr("has no place in GGUF files"));
    return;
  }
  ASSERT_TRUE(status_.ok()) << status_.message();
  const std::string path = folder_.write_file("t.gguf", file_of(metadata_));
  expect_same(*must(Tokenizer::load(path)), *expected_);
  const TemporaryFolder back;
  const Status written = write_tokenizer_folder(path, back.path());
  ASSERT_TRUE(written.ok()) << written.message();
  expect_same(*must(Tokenizer::load(back.path())), *expected_);
}

TEST_P(Fixture, gives_the_same_ids_from_the_keys_alone_where_they_say_how_text_is_split) {
  if (!is_expressible() || GetParam().ends_with(".model")) return;
  const GgufMetadata keys = keys_alone(metadata_);
  const std::string bytes = file_of(keys);
  const GgufFile file = must(GgufFile::parse(std::as_bytes(std::span(bytes))));
  const std::string path = folder_.write_file("t.gguf", bytes);
  const auto pre = file.find("tokenizer.ggml.pre")->text();
  const auto loaded = Tokenizer::load(path);
  if (pre == "custom") {
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(std::string(loaded.status().message()),
                HasSubstr("'tokenizer.ggml.pre' is 'custom'; there are default, gpt-2"));
    return;
  }
  if (expected_->kind() != "byte-level bpe") return;  // scores are ranks: near, not the same
  expect_same(*must(Tokenizer::load(path)), *expected_);
  const TemporaryFolder back;
  const Status written = write_tokenizer_folder(path, back.path());
  ASSERT_TRUE(written.ok()) << written.message();
  expect_same(*must(Tokenizer::load(back.path())), *expected_);
}

INSTANTIATE_TEST_SUITE_P(Files, Fixture, testing::ValuesIn(fixture_files()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST(GgufTokenizer, the_split_rules_of_known_models_are_recognised) {
  for (const auto& [file, pre] : std::map<std::string, std::string>{
           {"gpt2.json", "gpt-2"}, {"llama3.json", "llama-bpe"}, {"smollm.json", "smollm"}}) {
    const TemporaryFolder folder;
    write_folder(folder, file);
    GgufMetadata metadata;
    ASSERT_TRUE(add_gguf_tokenizer(folder.path(), 200000, true, metadata).ok());
    const std::string bytes = file_of(metadata);
    const GgufFile parsed = must(GgufFile::parse(std::as_bytes(std::span(bytes))));
    EXPECT_EQ(parsed.find("tokenizer.ggml.pre")->text(), pre);
  }
}

// A byte-level vocabulary of a few tokens.
GgufMetadata small_bpe(std::string_view pre) {
  GgufMetadata metadata;
  metadata.add_text("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) metadata.add_text("tokenizer.ggml.pre", pre);
  metadata.add_texts("tokenizer.ggml.tokens",
                     std::vector<std::string>{"<s>", "l", "o", "lo", "<x>", "1", "2", "12"});
  metadata.add_integers("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, 1, 1, 4, 1, 1, 1});
  metadata.add_texts("tokenizer.ggml.merges", std::vector<std::string>{"l o", "1 2"});
  metadata.add_count("tokenizer.ggml.bos_token_id", 0);
  return metadata;
}

Result<std::unique_ptr<Tokenizer>> load(const GgufMetadata& metadata) {
  const TemporaryFolder folder;
  return Tokenizer::load(folder.write_file("t.gguf", file_of(metadata)));
}

TEST(GgufTokenizer, the_split_rule_says_whether_digits_stand_alone_and_whether_a_text_begins) {
  EXPECT_EQ(*must(load(small_bpe("gpt-2")))->encode("lo12"), (std::vector<TokenId>{3, 7}));
  EXPECT_EQ(*must(load(small_bpe("smollm")))->encode("lo12"), (std::vector<TokenId>{3, 5, 6}));
  EXPECT_EQ(*must(load(small_bpe("llama-bpe")))->encode("lo12"), (std::vector<TokenId>{0, 3, 7}));
  GgufMetadata explicit_end = small_bpe("gpt-2");
  explicit_end.add_flag("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(*must(load(explicit_end))->encode("lo"), (std::vector<TokenId>{0, 3}));
}

// What is written for a tokenizer, and what the user is told about it.
struct Written {
  std::string pre, note;
};
Written written_for(const std::string& source) {
  GgufMetadata metadata;
  const std::string note = must(add_gguf_tokenizer(source, 200000, true, metadata));
  const std::string bytes = file_of(metadata);
  const GgufFile parsed = must(GgufFile::parse(std::as_bytes(std::span(bytes))));
  return {std::string(*parsed.find("tokenizer.ggml.pre")->text()), note};
}
Written written_for(const nlohmann::json& document) {
  const TemporaryFolder folder;
  folder.write_file("tokenizer.json", document.dump());
  return written_for(folder.path());
}

TEST(GgufTokenizer, every_split_rule_is_written_under_its_name_again) {
  for (const tok::SplitRule& rule : tok::split_rules()) {
    for (const std::string_view name : rule.names) {
      const TemporaryFolder folder;
      const std::string path = folder.write_file("t.gguf", file_of(small_bpe(name)));
      ASSERT_TRUE(write_tokenizer_folder(path, folder.path()).ok()) << name;
      const Written written = written_for(folder.path());
      EXPECT_EQ(written.pre, rule.names.front()) << name;
      EXPECT_EQ(written.note, "") << name;
    }
  }
}

TEST(GgufTokenizer, a_split_that_drops_what_is_between_its_matches_is_known_where_nothing_is) {
  auto json = nlohmann::json::parse(read_file(data_path("llama3.json")));
  auto& split = json["pre_tokenizer"]["pretokenizers"][0];
  split["behavior"] = "Removed";
  split["invert"] = true;
  EXPECT_EQ(written_for(json).pre, "llama-bpe");
  split["invert"] = false;
  EXPECT_EQ(written_for(json).pre, "custom");
}

TEST(GgufTokenizer, looking_words_up_first_is_no_matter_where_merges_reach_every_piece) {
  auto json = nlohmann::json::parse(read_file(data_path("gpt2.json")));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(written_for(json).pre, "gpt-2");
  json["model"]["vocab"]["zqx"] = json["model"]["vocab"].size() + 1;  // after the added token
  EXPECT_EQ(written_for(json).pre, "custom");
  EXPECT_THAT(written_for(json).note,
              HasSubstr("looks words up before it merges, which 'gpt-2' does not"));
  json["model"]["ignore_merges"] = false;
  EXPECT_EQ(written_for(json).pre, "gpt-2");
}

TEST(GgufTokenizer, what_llama_cpp_does_otherwise_is_said) {
  const auto json = nlohmann::json::parse(read_file(data_path("gpt2.json")));
  EXPECT_EQ(written_for(json).note, "");
  auto composing = json;
  composing["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_EQ(written_for(composing).pre, "gpt-2");
  EXPECT_EQ(written_for(composing).note,
            "llama.cpp will give some texts other tokens: this tokenizer brings text into the "
            "normal form NFC first, which 'tokenizer.ggml.pre' = 'gpt-2' does not say");
  auto nothing = json;
  nothing["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}};
  EXPECT_EQ(written_for(nothing).note, "");
  auto lower = json;
  lower["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(written_for(lower).note,
            "llama.cpp will not load this file: its tokenizer changes text before it is split "
            "(Lowercase); llama.cpp has no name for that, and 'tokenizer.ggml.pre' is 'custom'");
  auto spaced = json;
  spaced["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT(written_for(spaced).note, HasSubstr("prepends a space to each text"));
  auto other = json;
  other["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "[a-z]+"}}}, {"behavior", "Isolated"}},
        json["pre_tokenizer"]}}};
  EXPECT_THAT(written_for(other).note, HasSubstr("its tokenizer splits text at '[a-z]+ and then "));
  EXPECT_EQ(written_for(other).pre, "custom");
  other["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Punctuation"}};
  EXPECT_THAT(written_for(other).note, HasSubstr("splits text by 'Punctuation'"));
}

TEST(GgufTokenizer, a_file_without_a_name_gets_one_where_its_json_has_it) {
  const TemporaryFolder folder;
  GgufMetadata old = small_bpe("custom");
  old.add_text("tokenizer.huggingface.json", read_file(data_path("smollm.json")));
  EXPECT_EQ(written_for(folder.write_file("old.gguf", file_of(old))).pre, "smollm");
}

TEST(GgufTokenizer, control_tokens_are_special_and_those_of_users_are_always_found) {
  const auto tokenizer = must(load(small_bpe("gpt-2")));
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(4));
  const auto ids = tokenizer->encode("lo<x>lo", {.parse_special = false});
  EXPECT_EQ(*ids, (std::vector<TokenId>{3, 4, 3}));
  EXPECT_EQ(*tokenizer->encode("<s>lo"), (std::vector<TokenId>{0, 3}));
}

std::string fault(const GgufMetadata& metadata) {
  const auto loaded = load(metadata);
  return loaded.ok() ? "none" : std::string(loaded.status().message());
}

TEST(GgufTokenizer, what_cannot_be_read_is_refused_by_its_key) {
  EXPECT_THAT(fault({}), HasSubstr("it has no tokenizer ('tokenizer.ggml.tokens')"));
  EXPECT_THAT(fault(small_bpe("klingon")),
              HasSubstr("'tokenizer.ggml.pre' is 'klingon'; there are"));
  GgufMetadata unigram;
  unigram.add_text("tokenizer.ggml.model", "t5");
  unigram.add_texts("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  EXPECT_THAT(fault(unigram),
              HasSubstr("'tokenizer.ggml.model' is 't5'; there are llama, gpt2 and gemma4"));
  GgufMetadata uneven;
  uneven.add_text("tokenizer.ggml.model", "llama");
  uneven.add_texts("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  uneven.add_reals("tokenizer.ggml.scores", std::vector<float>{1});
  EXPECT_THAT(fault(uneven),
              HasSubstr("'tokenizer.ggml.scores' has 1 elements; there are 2 tokens"));
  GgufMetadata merges;
  merges.add_text("tokenizer.ggml.model", "gpt2");
  merges.add_texts("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  merges.add_texts("tokenizer.ggml.merges", std::vector<std::string>{"ab"});
  EXPECT_THAT(fault(merges), HasSubstr("merge 1 is 'ab'; expected two pieces"));
}

GgufMetadata vocabulary_of(const std::string& model, const std::vector<std::string>& tokens) {
  GgufMetadata metadata;
  metadata.add_text("tokenizer.ggml.model", model);
  metadata.add_texts("tokenizer.ggml.tokens", tokens);
  return metadata;
}

// A vocabulary of Gemma 4's kind, as llama.cpp's converter writes it and as its tokenizer.json has
// it.
struct Gemma4 {
  std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>", "<|call>"};
  std::vector<int32_t> types = {3, 3, 3, 2, 4};
  std::vector<std::string> merges = {"l o", "\n \n", "\n\n \n", "▁ lo", "▁ ▁", "o ▁", "w s"};

  Gemma4() {
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
      add(text, 6);
    }
    for (const char* piece : {"\n", "\n\n", "\n\n\n", "▁", "▁▁", "l", "o", "lo", "▁lo", "o▁", "w",
                              "s", "ws", "ö", "lost"}) {
      add(piece, 1);
    }
  }
  void add(const char* text, int32_t type) {
    tokens.emplace_back(text);
    types.push_back(type);
  }

  GgufMetadata gguf() const {
    GgufMetadata metadata;
    metadata.add_text("tokenizer.ggml.model", "gemma4");
    metadata.add_texts("tokenizer.ggml.tokens", tokens);
    metadata.add_reals("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1000.0f));
    metadata.add_integers("tokenizer.ggml.token_type", types);
    metadata.add_texts("tokenizer.ggml.merges", merges);
    metadata.add_count("tokenizer.ggml.eos_token_id", 1);
    metadata.add_count("tokenizer.ggml.bos_token_id", 2);
    metadata.add_count("tokenizer.ggml.unknown_token_id", 3);
    metadata.add_flag("tokenizer.ggml.add_space_prefix", false);
    return metadata;
  }

  nlohmann::json json() const {
    nlohmann::json added = nlohmann::json::array(), vocabulary, pairs = nlohmann::json::array();
    for (size_t id = 0; id < tokens.size(); ++id) {
      vocabulary[tokens[id]] = id;
      if (id < 5) added.push_back({{"id", id}, {"content", tokens[id]}, {"special", id < 4}});
    }
    for (const std::string& merge : merges) {
      const size_t space = merge.find(' ');
      pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
    return {{"added_tokens", added},
            {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}},
            {"pre_tokenizer",
             {{"type", "Split"},
              {"pattern", {{"String", " "}}},
              {"behavior", "MergedWithPrevious"},
              {"invert", false}}},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}}}}},
            {"model",
             {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"fuse_unk", true},
              {"byte_fallback", true},
              {"ignore_merges", false},
              {"vocab", vocabulary},
              {"merges", pairs}}}};
  }
};

TEST(GgufTokenizer, gemma_4s_file_gives_the_ids_of_its_tokenizer_json) {
  const TemporaryFolder folder;
  folder.write_file("tokenizer.json", Gemma4().json().dump());
  const auto expected = must(Tokenizer::load(folder.path()));
  const std::string path = folder.write_file("t.gguf", file_of(Gemma4().gguf()));
  const auto actual = must(Tokenizer::load(path));
  const TemporaryFolder back;
  ASSERT_TRUE(write_tokenizer_folder(path, back.path()).ok());
  const auto again = must(Tokenizer::load(back.path()));
  std::vector<std::string> texts = kTexts;
  texts.insert(texts.end(),
               {"lo lo  lo", "lo\n\n\n\nlo\n", " wso lost", "lo<|call>lo<eos>lo", "lö語"});
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = *expected->encode(text);
    for (const Tokenizer* tokenizer : {actual.get(), again.get()}) {
      std::vector<TokenId> got = *tokenizer->encode(text);
      ASSERT_EQ(got.front(), 2) << text;  // both say that <bos> comes first
      got.erase(got.begin());
      EXPECT_EQ(got, ids) << text;
      EXPECT_EQ(*tokenizer->decode(ids), *expected->decode(ids)) << text;
    }
  }
  EXPECT_EQ(actual->kind(), expected->kind());
}

TEST(GgufTokenizer, gemma_4s_merges_decide_and_not_its_scores_or_whole_words) {
  const auto tokenizer = must(load(Gemma4().gguf()));
  const auto id = [](const char* piece) {
    const Gemma4 all;
    return static_cast<TokenId>(std::ranges::find(all.tokens, piece) - all.tokens.begin());
  };
  EXPECT_EQ(*tokenizer->encode("lost\n\n\n"),
            (std::vector<TokenId>{2, id("lo"), id("s"), id("<0x74>"), id("\n\n\n")}));
  const std::vector<TokenId> bytes = {id("▁lo"), id("<0xC3>"), id("<0xB6>")};
  EXPECT_EQ(*tokenizer->decode(bytes), " loö");
  GgufMetadata bare;
  bare.add_text("tokenizer.ggml.model", "gemma4");
  bare.add_texts("tokenizer.ggml.tokens", Gemma4().tokens);
  EXPECT_THAT(fault(bare), HasSubstr("'tokenizer.ggml.merges' is missing or empty"));
}

TEST(GgufTokenizer, a_vocabulary_that_needs_merges_or_scores_is_refused_without_them) {
  EXPECT_THAT(fault(vocabulary_of("gpt2", {"a", "b", "ab"})),
              HasSubstr("'tokenizer.ggml.merges' is missing or empty"));
  GgufMetadata empty = vocabulary_of("gpt2", {"a", "b", "ab"});
  empty.add_texts("tokenizer.ggml.merges", std::vector<std::string>{});
  EXPECT_THAT(fault(empty), HasSubstr("'tokenizer.ggml.merges' is missing or empty"));
  EXPECT_THAT(fault(vocabulary_of("llama", {"<unk>", "a", "b"})),
              HasSubstr("'tokenizer.ggml.scores' is missing; expected a score for each of 3"));
  GgufMetadata unknown = vocabulary_of("gpt2", {"a", "b", "ab"});
  unknown.add_texts("tokenizer.ggml.merges", std::vector<std::string>{"a b", "a c"});
  EXPECT_THAT(fault(unknown), HasSubstr("merge 2 joins 'a' and 'c'"));
}

TEST(GgufTokenizer, tokens_that_are_gone_are_no_model_without_a_tokenizer) {
  GgufMetadata metadata;
  metadata.add_text("tokenizer.ggml.model", "gpt2");
  EXPECT_THAT(fault(metadata), HasSubstr("'tokenizer.ggml.tokens' is missing, but "
                                         "'tokenizer.ggml.model' is the text 'gpt2'"));
  EXPECT_EQ(load(metadata).status().code(), StatusCode::invalid_argument);
  GgufMetadata none;
  none.add_text("tokenizer.ggml.model", "no_vocab");
  EXPECT_EQ(load(none).status().code(), StatusCode::not_found);
}

TEST(GgufTokenizer, types_and_a_split_rule_that_are_gone_are_guessed_with_a_word) {
  GgufMetadata metadata = vocabulary_of("gpt2", {"a", "b", "<|im_start|>"});
  const auto tokenizer = must(load(metadata));
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_EQ(*tokenizer->encode("a<|im_start|>b"), (std::vector<TokenId>{0, 2, 1}));
  ASSERT_EQ(tokenizer->warnings().size(), 2u);
  EXPECT_THAT(tokenizer->warnings()[0], HasSubstr("'tokenizer.ggml.token_type' is missing"));
  EXPECT_THAT(tokenizer->warnings()[1], HasSubstr("'tokenizer.ggml.pre' is missing"));
}

TEST(GgufTokenizer, an_empty_token_is_a_gap_in_the_vocabulary) {
  GgufMetadata metadata;
  metadata.add_text("tokenizer.ggml.model", "gpt2");
  metadata.add_texts("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "b"});
  const auto tokenizer = must(load(metadata));
  EXPECT_EQ(*tokenizer->encode("ab"), (std::vector<TokenId>{0, 2}));
  EXPECT_EQ(tokenizer->piece(1), "");
}

TEST(GgufTokenizer, more_tokens_than_the_model_has_rows_are_refused) {
  const TemporaryFolder folder;
  write_folder(folder, "gpt2.json");
  GgufMetadata metadata;
  EXPECT_THAT(std::string(add_gguf_tokenizer(folder.path(), 5, true, metadata).status().message()),
              HasSubstr("the model's vocabulary only 5"));
}

TEST(GgufTokenizer, the_chat_template_travels_both_ways) {
  const TemporaryFolder folder;
  write_folder(folder, "spm_llama.model");
  folder.write_file("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  GgufMetadata metadata;
  ASSERT_TRUE(add_gguf_tokenizer(folder.path(), 100000, true, metadata).ok());
  const std::string path = folder.write_file("t.gguf", file_of(metadata));
  const TemporaryFolder back;
  ASSERT_TRUE(write_tokenizer_folder(path, back.path()).ok());
  const auto config = nlohmann::json::parse(read_file(back.path("tokenizer_config.json")));
  EXPECT_EQ(config["chat_template"], "{{ messages }}");
  EXPECT_TRUE(std::filesystem::exists(back.path("tokenizer.model")));
}

}  // namespace
}  // namespace tenon
