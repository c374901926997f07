// Models in parts: written, found by any of them, and refused where one does not belong.
#include "core/files/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/model/convert/gguf_writer.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

// One row of eight values that all are `value`: 32 bytes.
GgufPlannedTensor tensor(const std::string& name, float value) {
  return {name, kGgufF32, {8}, [value](uint64_t, uint64_t, std::byte* out) {
            for (int i = 0; i < 8; ++i) std::memcpy(out + 4 * i, &value, 4);
          }};
}

float first_value(const GgufParts& parts, const GgufTensor& tensor) {
  float value = 0;
  std::memcpy(&value, parts.bytes_of(tensor).data(), 4);
  return value;
}

class Parts : public testing::Test {
 protected:
  Parts() { metadata_.add_text("general.architecture", "llama"); }

  std::string path(const std::string& name) const { return folder_.path(name); }
  std::vector<std::string> write(const GgufSplit& split) {
    const auto written = write_gguf(path("m.gguf"), metadata_, tensors_, {}, split);
    EXPECT_TRUE(written.ok()) << written.status().message();
    return written.ok() ? *written : std::vector<std::string>();
  }
  // One part alone, with what it says of itself.
  void write_part(const std::string& name, uint16_t number, uint16_t count, int32_t tensors,
                  const std::vector<GgufPlannedTensor>& own, const std::string& architecture = "") {
    GgufMetadata metadata;
    if (!architecture.empty()) metadata.add_text("general.architecture", architecture);
    metadata.add_short("split.no", number);
    metadata.add_short("split.count", count);
    metadata.add_integer("split.tensors.count", tensors);
    fs::remove(path(name));
    ASSERT_TRUE(write_gguf(path(name), metadata, own).ok());
  }
  std::string fault(const std::string& name) const {
    const auto opened = GgufParts::open(path(name));
    return opened.ok() ? "none" : std::string(opened.status().message());
  }

  TemporaryFolder folder_;
  GgufMetadata metadata_;
  std::vector<GgufPlannedTensor> tensors_ = {tensor("a", 1), tensor("b", 2), tensor("c", 3),
                                             tensor("d", 4), tensor("e", 5)};
};

TEST_F(Parts, are_named_as_llama_gguf_split_names_them) {
  EXPECT_THAT(write({.tensors = 2}),
              ElementsAre(EndsWith("/m-00001-of-00003.gguf"), EndsWith("/m-00002-of-00003.gguf"),
                          EndsWith("/m-00003-of-00003.gguf")));
  EXPECT_FALSE(fs::exists(path("m.gguf")));
}

TEST_F(Parts, hold_the_bytes_that_they_may) {
  EXPECT_THAT(write({.max_bytes = 96}), SizeIs(2));
  EXPECT_EQ(GgufParts::open(path("m-00001-of-00002.gguf"))->file().tensors()[3].part, 1u);
}

TEST_F(Parts, hold_one_tensor_at_least) {
  EXPECT_THAT(write({.max_bytes = 1}), SizeIs(5));
}

TEST_F(Parts, are_one_model_whichever_is_named) {
  for (const std::string& file : write({.tensors = 2})) {
    const auto opened = GgufParts::open(file);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->file().find("general.architecture")->text(), "llama");
    EXPECT_THAT(opened->file().tensors(), SizeIs(5));
    EXPECT_THAT(opened->parts(), SizeIs(3));
    float expected = 1;
    for (const GgufTensor& tensor : opened->file().tensors()) {
      EXPECT_EQ(first_value(*opened, tensor), expected++);
    }
  }
}

TEST_F(Parts, may_be_a_single_one_under_any_name) {
  write({.tensors = 9});
  EXPECT_EQ(fault("m-00001-of-00001.gguf"), "none");
  fs::rename(path("m-00001-of-00001.gguf"), path("whole.gguf"));
  EXPECT_EQ(fault("whole.gguf"), "none");
}

TEST_F(Parts, replace_no_file_and_leave_none_behind) {
  folder_.write_file("m-00002-of-00003.gguf", "mine");
  const auto written = write_gguf(path("m.gguf"), metadata_, tensors_, {}, {.tensors = 2});
  EXPECT_THAT(std::string(written.status().message()),
              HasSubstr("m-00002-of-00003.gguf' is already there"));
  EXPECT_FALSE(fs::exists(path("m-00001-of-00003.gguf")));
}

TEST_F(Parts, that_are_missing_are_named) {
  write({.tensors = 2});
  fs::remove(path("m-00003-of-00003.gguf"));
  EXPECT_THAT(fault("m-00002-of-00003.gguf"),
              HasSubstr("m-00002-of-00003.gguf: part 3 of 3 of the model is missing; expected '" +
                        path("m-00003-of-00003.gguf") + "' next to it; fetch it"));
}

TEST_F(Parts, with_another_name_cannot_find_each_other) {
  write({.tensors = 2});
  fs::rename(path("m-00002-of-00003.gguf"), path("second.gguf"));
  EXPECT_THAT(fault("second.gguf"),
              HasSubstr("is part 2 of 3 of a model; expected a name that ends in "
                        "-00002-of-00003.gguf"));
}

TEST_F(Parts, under_the_name_of_another_are_said_to_be_that) {
  write({.tensors = 2});
  fs::copy_file(path("m-00001-of-00003.gguf"), path("m-00002-of-00003.gguf"),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(fault("m-00001-of-00003.gguf"),
              HasSubstr("m-00002-of-00003.gguf: says that it is part 1 of 3 (split.no 0, "
                        "split.count 3); by its name it is part 2 of 3"));
  fs::copy_file(path("m-00003-of-00003.gguf"), path("m-00003-of-00004.gguf"));
  EXPECT_THAT(fault("m-00003-of-00004.gguf"), HasSubstr("by its name it is part 3 of 4"));
}

TEST_F(Parts, with_the_same_tensor_are_of_two_models) {
  write_part("m-00001-of-00002.gguf", 0, 2, 2, {tensor("a", 1)}, "llama");
  write_part("m-00002-of-00002.gguf", 1, 2, 2, {tensor("a", 2)});
  EXPECT_THAT(fault("m-00001-of-00002.gguf"),
              HasSubstr("parts 1 and 2 of the model both have the tensor 'a'"));
}

TEST_F(Parts, of_another_model_are_known_by_what_they_say) {
  write_part("m-00001-of-00002.gguf", 0, 2, 2, {tensor("a", 1)}, "llama");
  write_part("m-00002-of-00002.gguf", 1, 2, 2, {tensor("b", 2)}, "qwen2");
  EXPECT_THAT(fault("m-00001-of-00002.gguf"),
              HasSubstr("m-00002-of-00002.gguf: 'general.architecture' is the text 'qwen2'; in "
                        "part 1 it is the text 'llama'; this is a part of another model"));
  write_part("m-00002-of-00002.gguf", 1, 2, 7, {tensor("b", 2)});
  EXPECT_THAT(fault("m-00001-of-00002.gguf"),
              HasSubstr("m-00002-of-00002.gguf: 'split.tensors.count' is 7; in part 1 it is 2"));
}

TEST_F(Parts, with_too_few_tensors_are_counted) {
  write_part("m-00001-of-00002.gguf", 0, 2, 4, {tensor("a", 1)}, "llama");
  write_part("m-00002-of-00002.gguf", 1, 2, 4, {tensor("b", 2), tensor("c", 2)});
  EXPECT_THAT(fault("m-00002-of-00002.gguf"),
              HasSubstr("'split.tensors.count' is 4; the 2 parts have 1 + 2 tensors"));
}

TEST_F(Parts, say_of_how_many) {
  GgufMetadata metadata;
  metadata.add_short("split.no", 1);
  ASSERT_TRUE(write_gguf(path("m-00002-of-00002.gguf"), metadata, tensors_).ok());
  EXPECT_THAT(fault("m-00002-of-00002.gguf"),
              HasSubstr("is part 2 of a model (split.no), but does not say of how many"));
}

TEST_F(Parts, that_are_cut_off_are_named) {
  write({.tensors = 2});
  fs::resize_file(path("m-00002-of-00003.gguf"), 40);
  EXPECT_THAT(fault("m-00001-of-00003.gguf"), HasSubstr("m-00002-of-00003.gguf: "));
}

TEST(GgufPartName, has_a_number_and_a_count_of_five_digits) {
  const auto name = gguf_part_name("/x/m-00002-of-00012.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/x/m");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 12u);
  for (const char* other :
       {"m.gguf", "m-2-of-3.gguf", "m-00004-of-00003.gguf", "-00001-of-00003",
        "m-00000-of-00003.gguf", "m-0000a-of-00003.gguf", "m_00001-of-00003.gguf"}) {
    EXPECT_FALSE(gguf_part_name(other).has_value()) << other;
  }
  EXPECT_EQ(without_gguf_part("/x/m-00002-of-00012.gguf"), "/x/m.gguf");
  EXPECT_EQ(without_gguf_part("/x/m.gguf"), "/x/m.gguf");
}

}  // namespace
}  // namespace tenon
