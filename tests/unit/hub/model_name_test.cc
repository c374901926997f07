#include "core/hub/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

TEST(ModelName, an_owner_a_name_a_revision_and_a_file_are_told_apart) {
  const auto plain = parse_model_name("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->file, "");

  const auto whole = parse_model_name("Qwen/Qwen3-GGUF/q8/model.gguf@refs/pr/1");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->repository, "Qwen/Qwen3-GGUF");
  EXPECT_EQ(whole->revision, "refs/pr/1");
  EXPECT_EQ(whole->file, "q8/model.gguf");
  EXPECT_EQ(whole->text(), "Qwen/Qwen3-GGUF/q8/model.gguf@refs/pr/1");

  ASSERT_TRUE(parse_model_name("gpt2"));
  EXPECT_EQ(parse_model_name("gpt2@main")->text(), "gpt2");
}

TEST(ModelName, what_the_hub_cannot_have_is_no_name) {
  for (const char* text : {"",
                           "/",
                           "/tmp/model",
                           "./model",
                           "../model",
                           "a/../b",
                           "owner/",
                           "owner//name",
                           "-a/b",
                           "a/b.",
                           "a/b--c",
                           "a..b/c",
                           "a b/c",
                           "a/b.git",
                           "a/b@",
                           "a/b@../c",
                           "a/b@x y",
                           "model.gguf",
                           "folder/model.gguf",
                           "a/b/c",
                           "a/b/../c.gguf",
                           "ä/b",
                           "a/b\n"}) {
    EXPECT_FALSE(parse_model_name(text)) << text;
  }
  EXPECT_FALSE(parse_model_name("a/" + std::string(95, 'b')));
  EXPECT_TRUE(parse_model_name("a/" + std::string(94, 'b')));
}

}  // namespace
}  // namespace tenon::hub
