#include "core/compare/arms/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/model/model.h"
#include "tests/support/models/model_folder.h"

namespace tenon::compare {
namespace {

using testing::HasSubstr;

TEST(ArmWeights, a_type_that_nothing_writes_names_the_arm) {
  Comparison comparison;
  comparison.arms = {{.name = "fine", .weights = "q8_0"}, {.name = "odd", .weights = "q5_k"}};
  const Status status = check_weights(comparison);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("q5_k"));
  comparison.arms.pop_back();
  EXPECT_TRUE(check_weights(comparison).ok());
}

class WeightsTest : public testing::Test {
 protected:
  WeightsTest() {
    model_.write();
    Result<Folder> made = Folder::create(parent_.path("results"));
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) folder_.emplace(*std::move(made));
  }

  TemporaryFolder parent_;
  ModelFolder model_;
  std::optional<Folder> folder_;
};

TEST_F(WeightsTest, a_file_of_the_type_is_made_once_and_removed_at_the_end) {
  std::string path;
  {
    ArmWeights weights(*folder_);
    const auto made = weights.made(model_.path(), "f16");
    ASSERT_TRUE(made.ok()) << made.status().message();
    path = made->path;
    const auto opened = open_model(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ((*opened)->layers[0].q.format, "f16");
    const auto written = std::filesystem::last_write_time(path);
    const auto again = weights.made(model_.path(), "f16");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->path, path);
    EXPECT_EQ(std::filesystem::last_write_time(path), written);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(WeightsTest, matrices_whose_rows_are_no_whole_blocks_are_named) {
  ArmWeights weights(*folder_);
  const auto made = weights.made(model_.path(), "q8_0");  // rows of 8 and 12 numbers, blocks of 32
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_FALSE(made->kept.empty());
}

}  // namespace
}  // namespace tenon::compare
