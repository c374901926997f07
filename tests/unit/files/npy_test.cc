#include "core/files/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string npy(const std::string& dictionary, const std::string& data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dictionary.size());
  file += '\0';
  return file + dictionary + data;
}

std::string refusal(const std::string& content) {
  TemporaryFolder folder;
  const auto array = read_npy_i32(folder.write_file("a.npy", content));
  EXPECT_FALSE(array.ok());
  return std::string(array.status().message());
}

TEST(Npy, floats_come_back_as_they_were_written) {
  TemporaryFolder folder;
  const std::vector<float> values = {1.5f, -2.0f, 3e-30f, 4.0f, 5.0f, 6.0f};
  const std::vector<uint64_t> shape = {2, 3};
  ASSERT_TRUE(write_npy(folder.path() + "/a.npy", values, shape).ok());
  const auto array = read_npy_f32(folder.path() + "/a.npy");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->values, values);
  EXPECT_EQ(array->shape, shape);
}

TEST(Npy, scalars_and_empty_arrays_come_back) {
  TemporaryFolder folder;
  const std::vector<int32_t> one = {7}, none;
  ASSERT_TRUE(write_npy(folder.path() + "/one.npy", one, {}).ok());
  ASSERT_TRUE(write_npy(folder.path() + "/none.npy", none, std::vector<uint64_t>{0, 4}).ok());
  EXPECT_THAT(read_npy_i32(folder.path() + "/one.npy")->values, ElementsAre(7));
  EXPECT_THAT(read_npy_i32(folder.path() + "/none.npy")->shape, ElementsAre(0, 4));
}

TEST(Npy, arrays_of_numpy_are_read) {
  const std::string golden = golden_models() + "llama_gqa/";
  const auto logits = read_npy_f32(golden + "logits.npy");
  const auto tokens = read_npy_i32(golden + "tokens.npy");
  ASSERT_TRUE(logits.ok() && tokens.ok());
  EXPECT_THAT(logits->shape, ElementsAre(40, 99));
  EXPECT_THAT(tokens->shape, ElementsAre(40));
  for (const int32_t token : tokens->values) EXPECT_TRUE(token >= 0 && token < 99);
}

TEST(Npy, data_starts_at_a_multiple_of_64) {
  TemporaryFolder folder;
  for (uint64_t extent = 1; extent < 2000; extent = extent * 3 + 1) {
    const std::vector<float> values(extent);
    const std::string path = folder.path() + "/a.npy";
    ASSERT_TRUE(write_npy(path, values, std::vector<uint64_t>{extent}).ok());
    EXPECT_EQ((std::filesystem::file_size(path) - 4 * extent) % 64, 0u);
  }
}

TEST(Npy, int64_is_narrowed_where_it_fits) {
  TemporaryFolder folder;
  const std::string dictionary = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
  const std::string fits("\x05\0\0\0\0\0\0\0", 8), wide("\0\0\0\0\x01\0\0\0", 8);
  EXPECT_THAT(read_npy_i32(folder.write_file("a.npy", npy(dictionary, fits)))->values,
              ElementsAre(5));
  EXPECT_THAT(refusal(npy(dictionary, wide)), HasSubstr("holds 4294967296; expected 32-bit"));
}

TEST(Npy, what_cannot_be_read_is_refused_with_the_reason) {
  EXPECT_THAT(refusal("hello"), HasSubstr("is no .npy file"));
  EXPECT_THAT(refusal(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "12345678")),
              HasSubstr("holds '<f8'; expected int32 or int64"));
  EXPECT_THAT(refusal(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1,), }", "1234")),
              HasSubstr("is in Fortran order"));
  EXPECT_THAT(refusal(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (9,), }", "1234")),
              HasSubstr("has 4 bytes of data for 9 values; it is truncated"));
  EXPECT_THAT(refusal(npy("{'descr': '<i4', 'fortran_order': False, "
                          "'shape': (4294967296, 4294967296, 2), }",
                          "1234")),
              HasSubstr("has no shape"));
}

TEST(Npy, no_truncation_of_a_file_is_read_as_whole) {
  TemporaryFolder folder;
  const std::vector<int32_t> values = {1, 2, 3};
  const std::string path = folder.path() + "/a.npy";
  ASSERT_TRUE(write_npy(path, values, std::vector<uint64_t>{3}).ok());
  for (uint64_t size = std::filesystem::file_size(path); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(read_npy_i32(path).ok()) << size;
  }
}

}  // namespace
}  // namespace tenon
