#include "core/server/models/adapter_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace tenon::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AdapterFolder : public testing::Test {
 protected:
  AdapterFolder() {
    fs::create_directories(root() / "poems");
    fs::create_directories(root() / "of/legal");
    fs::create_directories(elsewhere() / "secret");
    std::ofstream(elsewhere() / "adapter_config.json") << "{}";
  }

  fs::path root() const { return fs::canonical(folder_.path()) / "adapters"; }
  fs::path elsewhere() const { return fs::canonical(folder_.path()) / "adapters-not"; }
  std::string found(const std::string& path) const {
    const auto place = adapter_folder(root().string(), path);
    return place.ok() ? *place : "refused: " + place.error().message;
  }

  TemporaryFolder folder_;
};

TEST_F(AdapterFolder, is_named_from_the_root_or_by_its_whole_path) {
  EXPECT_EQ(found("poems"), (root() / "poems").string());
  EXPECT_EQ(found("./of/../of/legal/"), (root() / "of/legal").string());
  EXPECT_EQ(found((root() / "poems").string()), (root() / "poems").string());
}

TEST_F(AdapterFolder, may_be_a_link_to_another_below_the_root) {
  fs::create_directory_symlink(root() / "of/legal", root() / "newest");
  EXPECT_EQ(found("newest"), (root() / "of/legal").string());
  const std::string through = (fs::canonical(folder_.path()) / "link").string();
  fs::create_directory_symlink(root(), through);
  const auto place = adapter_folder(through, "poems");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(*place, (root() / "poems").string());
}

// The same words whether something is there or not.
TEST_F(AdapterFolder, lies_nowhere_else) {
  fs::create_directory_symlink(elsewhere() / "secret", root() / "out");
  fs::create_directory_symlink(elsewhere(), root() / "poems/up");
  for (const std::string& path :
       {std::string("../adapters-not/secret"), std::string("../adapters-not/nothing"),
        elsewhere().string(), std::string("/etc"), std::string("/nothing/at/all"),
        std::string("out"), std::string("poems/up/secret"), std::string("poems/../.."),
        std::string("."), std::string(".."), root().string()}) {
    EXPECT_THAT(found(path), HasSubstr("leads out of the folder")) << path;
  }
}

TEST_F(AdapterFolder, has_no_files_of_other_places) {
  fs::create_symlink(elsewhere() / "adapter_config.json", root() / "poems/adapter_config.json");
  EXPECT_THAT(found("poems"), HasSubstr("leads out of the folder"));
  fs::create_symlink("/nothing", root() / "of/legal/adapter_model.safetensors");
  EXPECT_THAT(found("of/legal"), HasSubstr("leads out of the folder"));
}

TEST_F(AdapterFolder, is_there) {
  std::ofstream(root() / "file") << "x";
  EXPECT_THAT(found("nothing"), HasSubstr("there is no such folder"));
  EXPECT_THAT(found("file"), HasSubstr("there is no such folder"));
  EXPECT_THAT(found("poems/a/b"), HasSubstr("there is no such folder"));
}

TEST_F(AdapterFolder, has_a_path_that_can_be_one) {
  for (const std::string& path :
       {std::string(), std::string("poems\0x", 7), std::string(5000, 'a')}) {
    EXPECT_THAT(found(path), HasSubstr("must be the path of an adapter's folder"));
  }
  fs::create_symlink("round", root() / "round");
  EXPECT_THAT(found("round"), HasSubstr("refused"));
  EXPECT_THAT(found(std::string(3000, 'a')), HasSubstr("refused"));
}

}  // namespace
}  // namespace tenon::server
