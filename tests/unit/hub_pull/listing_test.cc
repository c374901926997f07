#include "core/hub/pull/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hub/pull/digest.h"
#include "tests/support/temporary_folder.h"

namespace tenon::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGit(40, 'a'), kSha(64, 'b');

std::vector<RemoteFile> files(const std::vector<std::string>& paths) {
  std::vector<RemoteFile> all;
  for (const std::string& path : paths) all.push_back({.path = path, .bytes = 10, .digest = kGit});
  return all;
}
std::vector<std::string> paths(const Result<std::vector<RemoteFile>>& found) {
  std::vector<std::string> all;
  EXPECT_TRUE(found.ok()) << found.status().message();
  for (size_t i = 0; found.ok() && i < found->size(); ++i) all.push_back((*found)[i].path);
  return all;
}
std::string refusal(const std::string& json) {
  std::vector<RemoteFile> into;
  return std::string(read_tree(json, into).message());
}

TEST(Tree, large_files_have_the_hash_of_their_bytes_and_small_ones_git_s) {
  std::vector<RemoteFile> into;
  const Status status =
      read_tree(R"([{"type":"directory","path":"x","oid":"","size":0},)"
                R"({"type":"file","path":"a","oid":")" +
                    kGit +
                    R"(","size":7},)"
                    R"({"type":"file","path":"x/b","oid":")" +
                    kGit + R"(","size":130,"lfs":{"oid":"sha256:)" + kSha + R"(","size":9000}}])",
                into);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(into.size(), 2u);
  EXPECT_EQ(into[0].digest, kGit);
  EXPECT_EQ(into[0].bytes, 7u);
  EXPECT_EQ(into[1].path, "x/b");
  EXPECT_EQ(into[1].digest, kSha);
  EXPECT_EQ(into[1].bytes, 9000u);
}

TEST(Tree, paths_that_lead_elsewhere_and_names_that_are_no_hash_are_refused) {
  const auto file = [](const std::string& path, const std::string& oid) {
    return R"([{"type":"file","path":")" + path + R"(","oid":")" + oid + R"(","size":7}])";
  };
  for (const char* path : {"../a", "/etc/passwd", "a/../../b", "a//b", "", "a/"}) {
    EXPECT_THAT(refusal(file(path, kGit)), HasSubstr("has the path")) << path;
  }
  for (const char* oid : {"", "../../x", "AAAA", "abc"}) {
    EXPECT_THAT(refusal(file("a", oid)), HasSubstr("has no hash, or no size")) << oid;
  }
  EXPECT_THAT(refusal("{}"), HasSubstr("it has no list of files"));
  EXPECT_THAT(refusal("<html>"), HasSubstr("is HF_ENDPOINT the address of a hub?"));
  EXPECT_EQ(refusal("[1, {}, {\"type\": 3}]"), "");
  for (const char* info : {"", "[]", "{}", R"({"sha":3})", R"({"sha":"main"})"}) {
    EXPECT_FALSE(read_commit(info).ok()) << info;
  }
  EXPECT_EQ(*read_commit(R"({"sha":")" + kGit + "\"}"), kGit);
}

TEST(ChosenFiles, a_model_of_safetensors_comes_without_what_nothing_here_reads) {
  const auto all = files({"config.json", "tokenizer.json", "model-1.safetensors", "LICENSE",
                          "consolidated.safetensors", "pytorch_model.bin", "a.gguf", "run.py",
                          "onnx/config.json", "onnx/model.safetensors", "1_Pooling/config.json",
                          "tokenizer.model", "merges.txt", "chat_template.jinja", "image.png"});
  EXPECT_THAT(
      paths(files_of_model(all, "ours/m")),
      ElementsAre("config.json", "tokenizer.json", "LICENSE", "1_Pooling/config.json",
                  "tokenizer.model", "merges.txt", "chat_template.jinja", "model-1.safetensors"));
}

TEST(ChosenFiles, the_only_gguf_model_is_taken_with_all_parts) {
  const auto all = files(
      {"README.md", "q8/m-00001-of-00002.gguf", "q8/m-00002-of-00002.gguf", "mmproj-f16.gguf"});
  EXPECT_THAT(paths(files_of_model(all, "ours/m")),
              ElementsAre("q8/m-00001-of-00002.gguf", "q8/m-00002-of-00002.gguf"));
  EXPECT_EQ(files_of_model(files({"README.md"}), "ours/m").status().code(), StatusCode::not_found);
}

// FIPS 180-4 and `git hash-object`.
TEST(Digest, bytes_are_named_as_the_hub_names_them) {
  TemporaryFolder folder;
  const std::string path = folder.write_file("a", "abc"), empty = folder.write_file("b", "");
  EXPECT_EQ(*digest_of(path, kSha),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(*digest_of(path, kGit), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(*digest_of(empty, kGit), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(digest_of(path, "x").status().code(), StatusCode::unsupported);
}

}  // namespace
}  // namespace tenon::hub
