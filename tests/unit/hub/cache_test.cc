#include "core/hub/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/support/temporary_folder.h"

namespace tenon::hub {
namespace {

using testing::HasSubstr;

// A cache of the test's own.
class Cache : public testing::Test {
 protected:
  Cache() { ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1); }
  ~Cache() override { ::unsetenv("HF_HUB_CACHE"); }

  std::string snapshot(const std::string& commit) const {
    return folder_.path("models--ours--tale/snapshots/" + commit);
  }
  void add(const std::string& name, const std::string& commit = "abc") const {
    folder_.write_file("models--ours--tale/snapshots/" + commit + "/" + name, "x");
    folder_.write_file("models--ours--tale/refs/main", "abc\n");
  }

  TemporaryFolder folder_;
};

TEST_F(Cache, a_branch_leads_to_its_commit_and_a_commit_to_itself) {
  add("model.safetensors");
  add("config.json");
  add("config.json", "old");
  EXPECT_EQ(find_model("ours/tale"), snapshot("abc"));
  EXPECT_EQ(find_model("ours/tale@old"), snapshot("old"));
  EXPECT_EQ(find_model("ours/tale@none"), "ours/tale@none");
}

TEST_F(Cache, a_reference_that_leads_out_of_the_cache_is_not_followed) {
  folder_.write_file("models--ours--tale/refs/main", "../../../..");
  folder_.write_file("models--ours--tale/snapshots/abc/config.json", "x");
  EXPECT_EQ(find_model("ours/tale"), "ours/tale");
}

TEST_F(Cache, of_parts_the_first_is_the_model_and_encoders_of_images_are_none) {
  add("m-00001-of-00002.gguf");
  add("m-00002-of-00002.gguf");
  add("mmproj-f16.gguf");
  EXPECT_EQ(find_model("ours/tale"), snapshot("abc") + "/m-00001-of-00002.gguf");
  EXPECT_EQ(find_model("ours/tale/m-00002-of-00002.gguf"),
            snapshot("abc") + "/m-00002-of-00002.gguf");
}

TEST_F(Cache, a_snapshot_is_called_by_its_model) {
  EXPECT_EQ(name_of_snapshot(snapshot("abc")), "ours/tale");
  EXPECT_EQ(name_of_snapshot(snapshot("abc") + "/q8/m.gguf"), "ours/tale");
  EXPECT_EQ(name_of_snapshot("/models/tale"), std::nullopt);
  EXPECT_EQ(name_of_snapshot("/data/snapshots/abc"), std::nullopt);
  EXPECT_EQ(name_of_snapshot("/"), std::nullopt);
  EXPECT_EQ(name_of_snapshot(""), std::nullopt);
  EXPECT_EQ(short_name(snapshot("abc")), "tale");
  EXPECT_EQ(short_name(snapshot("abc") + "/m.gguf"), "m.gguf");
  EXPECT_EQ(short_name("/models/tale/"), "tale");
}

TEST_F(Cache, names_and_paths_are_told_apart_by_what_is_there) {
  TemporaryFolder files;
  EXPECT_TRUE(is_name_alone("ours/none", files.path()));
  EXPECT_FALSE(is_name_alone("gpt2", files.path()));  // a path that somebody mistyped
  files.write_file("ours/other", "");
  EXPECT_FALSE(is_name_alone("ours/none", files.path()));
  add("config.json");
  EXPECT_TRUE(is_name_alone("ours/tale", files.path()));  // since the cache has it
  files.write_file("ours/tale/config.json", "");
  EXPECT_FALSE(is_name_alone("ours/tale", files.path()));
}

TEST_F(Cache, a_hint_says_what_brings_a_model_and_is_silent_about_paths) {
  EXPECT_THAT(hint("ours/tale"), HasSubstr("'tenon model pull ours/tale' brings it"));
  EXPECT_THAT(hint(snapshot("abc")), HasSubstr("'tenon model pull ours/tale@abc' brings"));
  EXPECT_EQ(hint("/models/tale"), "");
  EXPECT_EQ(hint("tale"), "");
}

TEST(CacheFolder, variables_and_the_home_folder_are_replaced) {
  const std::string home = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  ::setenv("HOME", "/people/ada", 1);
  ::setenv("HF_HUB_CACHE", "~/a/${HOME}/$HOME/$tenon_none/${HOME/$", 1);
  EXPECT_EQ(cache_folder(), "/people/ada/a//people/ada//people/ada/$tenon_none/${HOME/$");
  ::unsetenv("HF_HUB_CACHE");
  ::setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(cache_folder(), "/hf/hub");
  ::unsetenv("HF_HOME");
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace tenon::hub
