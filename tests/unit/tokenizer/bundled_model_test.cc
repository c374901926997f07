// The tokenizer of the bundled demo model.
#include <gmock/gmock.h>

#include "core/files/gguf_metadata.h"
#include "core/tokenizer/files/gguf_export.h"
#include "tests/support/folders.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace tenon {
namespace {

std::unique_ptr<Tokenizer> tale() {
  return must(Tokenizer::load(source_folder() + "/configs/models/tale"));
}

TEST(BundledModel, loads_as_a_byte_level_tokenizer_that_ends_with_endoftext) {
  const auto tokenizer = tale();
  EXPECT_EQ(tokenizer->kind(), "byte-level bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 4096u);
  EXPECT_EQ(tokenizer->eos(), tokenizer->find("<|endoftext|>"));
  EXPECT_FALSE(tokenizer->bos());
}

TEST(BundledModel, gives_text_back_exactly) {
  const auto tokenizer = tale();
  const std::string text = "Once upon a time,\n\tthere was a na\xC3\xAFve fox \xF0\x9F\xA6\x8A.  ";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_LT(ids->size(), text.size());
  EXPECT_EQ(*tokenizer->decode(*ids), text);
}

TEST(BundledModel, finds_the_tokens_of_a_chat) {
  const auto tokenizer = tale();
  const auto ids = tokenizer->encode("<|user|>Hi<|end|>");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->front(), 4093);
  EXPECT_EQ(ids->back(), 4095);
  EXPECT_EQ(*tokenizer->decode(*ids), "Hi");
  EXPECT_EQ(*tokenizer->decode(*ids, /*skip_special=*/false), "<|user|>Hi<|end|>");
}

// Under this name llama.cpp loads what is converted.
TEST(BundledModel, splits_text_as_gpt2_does) {
  for (const char* model : {"tale", "tale-draft"}) {
    GgufMetadata metadata;
    const std::string folder = source_folder() + "/configs/models/" + model;
    EXPECT_EQ(must(add_gguf_tokenizer(folder, 4096, true, metadata)), "");
    const std::string gpt2("\x08\0\0\0\x05\0\0\0\0\0\0\0gpt-2", 17);  // a text of five bytes
    EXPECT_THAT(metadata.bytes(), testing::HasSubstr("tokenizer.ggml.pre" + gpt2));
  }
}

}  // namespace
}  // namespace tenon
