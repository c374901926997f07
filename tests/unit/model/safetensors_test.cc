#include "core/model/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/model/checkpoint/checkpoint.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)));
}

std::string refusal(const std::string& header, const std::string& data = "") {
  const auto parsed = parse(safetensors_file(header, data));
  EXPECT_FALSE(parsed.ok()) << header;
  return std::string(parsed.status().message());
}

// One tensor's fields, as JSON.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(SafetensorsHeader, tensors_come_in_the_order_of_their_bytes) {
  const auto parsed = parse(safetensors_file(R"({"__metadata__":{"format":"pt"},"b":)" +
                                                 tensor("F32", "[2]", "[2,10]") + R"(,"a":)" +
                                                 tensor("BF16", "[1,1]", "[0,2]") + "}  ",
                                             std::string(10, 'x')));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  ASSERT_THAT(parsed->tensors, SizeIs(2));
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].dtype, "BF16");
  EXPECT_THAT(parsed->tensors[0].shape, ElementsAre(1, 1));
  EXPECT_EQ(parsed->tensors[1].begin, 2u);
  EXPECT_EQ(parsed->tensors[1].end, 10u);
}

TEST(SafetensorsHeader, scalars_and_empty_tensors_are_allowed) {
  const auto parsed = parse(safetensors_file(
      R"({"empty":)" + tensor("F32", "[0,3]", "[0,0]") + R"(,"one":)" +
          tensor("F32", "[]", "[0,4]") + R"(,"last":)" + tensor("I64", "[0]", "[4,4]") + "}",
      "1234"));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_THAT(parsed->tensors, SizeIs(3));
}

TEST(SafetensorsHeader, a_file_without_tensors_is_allowed) {
  const auto parsed = parse(safetensors_file("{}", ""));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_THAT(parsed->tensors, IsEmpty());
}

TEST(SafetensorsHeader, a_file_too_short_for_a_length_is_refused) {
  EXPECT_THAT(std::string(parse("1234567").status().message()),
              HasSubstr("has 7 bytes; a safetensors file starts with 8"));
}

TEST(SafetensorsHeader, a_header_longer_than_the_file_is_refused_as_truncated) {
  std::string file = safetensors_file("{}", "");
  file[0] = 100;
  EXPECT_THAT(std::string(parse(file).status().message()),
              HasSubstr("header of 100 bytes but has only 10 bytes; it is truncated"));
}

TEST(SafetensorsHeader, a_header_over_the_limit_is_refused_before_anything_is_read) {
  std::string file = safetensors_file("{}", "");
  file[7] = '\x7f';
  EXPECT_THAT(std::string(parse(file).status().message()), HasSubstr("at most 100000000"));
}

TEST(SafetensorsHeader, what_is_not_json_is_refused_with_its_place) {
  EXPECT_THAT(refusal("[1]"), HasSubstr("header is not a JSON object"));
  EXPECT_THAT(refusal(" {}"), HasSubstr("header is not a JSON object"));
  EXPECT_THAT(refusal(std::string("{}\0", 3)), HasSubstr("header is not a JSON object"));
  EXPECT_THAT(refusal("{\"a\":"), HasSubstr("header is not valid JSON at byte 6"));
  EXPECT_THAT(refusal("{} {}"), HasSubstr("header is not valid JSON at byte"));
  EXPECT_THAT(refusal("{\"\xff\":1}"), HasSubstr("header is not valid JSON at byte 3"));
}

TEST(SafetensorsHeader, fields_of_the_wrong_kind_are_refused_by_name) {
  EXPECT_THAT(refusal(R"({"a":1})"), HasSubstr("tensor 'a' has a number where none belongs"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":1}})"), HasSubstr("tensor 'a' has a number"));
  EXPECT_THAT(refusal(R"({"a":{"shape":[-1]}})"), HasSubstr("tensor 'a' has a negative number"));
  EXPECT_THAT(refusal(R"({"a":{"shape":[1.5]}})"), HasSubstr("tensor 'a' has a fraction"));
  EXPECT_THAT(refusal(R"({"a":{"shape":[[1]]}})"), HasSubstr("tensor 'a' has a list"));
  EXPECT_THAT(refusal(R"({"a":{"strides":[1]}})"), HasSubstr("unknown field 'strides'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1]}})"),
              HasSubstr("tensor 'a' needs dtype, shape and data_offsets"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":{}}})"), HasSubstr("has an object where none"));
}

TEST(SafetensorsHeader, names_and_fields_that_stand_twice_are_refused) {
  const std::string a = R"("a":)" + tensor("U8", "[1]", "[0,1]");
  EXPECT_THAT(refusal("{" + a + "," + a + "}", "x"), HasSubstr("header names 'a' twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"I8"}})"), HasSubstr("has 'dtype' twice"));
}

TEST(SafetensorsHeader, offsets_are_two_and_inside_the_data) {
  const auto with = [](const std::string& offsets) {
    return refusal(R"({"a":)" + tensor("U8", "[4]", offsets) + "}", "1234");
  };
  EXPECT_THAT(with("[0]"), HasSubstr("needs two data_offsets"));
  EXPECT_THAT(with("[0,2,4]"), HasSubstr("needs two data_offsets"));
  EXPECT_THAT(with("[4,0]"), HasSubstr("tensor 'a' ends before it begins"));
  EXPECT_THAT(with("[0,5]"), HasSubstr("ends at byte 5 of 4 bytes of data; the file is truncated"));
  EXPECT_THAT(with("[0,18446744073709551615]"), HasSubstr("the file is truncated"));
  EXPECT_THAT(with("[0,18446744073709551616]"), HasSubstr("has a fraction"));
}

TEST(SafetensorsHeader, overlaps_and_holes_are_refused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return refusal(
        R"({"a":)" + tensor("U8", "[2]", first) + R"(,"b":)" + tensor("U8", "[2]", second) + "}",
        "12345");
  };
  EXPECT_THAT(two("[0,2]", "[1,3]"),
              HasSubstr("'b' begins at byte 1; the one before it ends at 2"));
  EXPECT_THAT(two("[0,2]", "[3,5]"),
              HasSubstr("'b' begins at byte 3; the one before it ends at 2"));
  EXPECT_THAT(two("[1,3]", "[3,5]"),
              HasSubstr("'a' begins at byte 1; the one before it ends at 0"));
  EXPECT_THAT(two("[0,2]", "[2,4]"), HasSubstr("tensors cover 4 of 5 bytes"));
}

TEST(SafetensorsHeader, bytes_must_be_what_shape_and_type_need) {
  EXPECT_THAT(refusal(R"({"a":)" + tensor("F32", "[2]", "[0,7]") + "}", "1234567"),
              HasSubstr("tensor 'a' has 7 bytes; its shape of F32 needs 8"));
  EXPECT_THAT(refusal(R"({"a":)" + tensor("F4", "[3]", "[0,1]") + "}", "1"),
              HasSubstr("tensor 'a' has 1 bytes; its shape of F4 needs more than exist"));
}

TEST(SafetensorsHeader, shapes_whose_product_overflows_are_refused) {
  for (const std::string shape : {"[4294967296,4294967296]", "[9223372036854775808,2]",
                                  "[2305843009213693952]", "[0,4294967296,4294967296,4]"}) {
    EXPECT_THAT(refusal(R"({"a":)" + tensor("F64", shape, "[0,0]") + "}"),
                HasSubstr("needs more than exist"))
        << shape;
  }
}

TEST(SafetensorsHeader, deep_nesting_and_long_shapes_do_no_harm) {
  EXPECT_THAT(refusal(R"({"a":)" + std::string(1 << 20, '[')), HasSubstr("tensor 'a' has a list"));
  std::string shape = "[1";
  for (int i = 0; i < 100000; ++i) shape += ",1";
  EXPECT_THAT(refusal(R"({"a":)" + tensor("F32", shape + "]", "[0,4]") + "}", "1234"),
              HasSubstr("tensor 'a' has too many dimensions"));
}

class Files : public testing::Test {
 protected:
  std::unique_ptr<Checkpoint> open(const std::string& file) {
    auto checkpoint = open_safetensors(folder.write_file("a.safetensors", file));
    if (!checkpoint.ok()) ADD_FAILURE() << checkpoint.status().message();
    return *std::move(checkpoint);
  }
  TemporaryFolder folder;
};
using SafetensorsFiles = Files;

TEST_F(SafetensorsFiles, a_tensor_of_a_type_without_a_view_is_refused_only_when_asked_for) {
  const auto checkpoint = open(safetensors_file(
      R"({"odd":)" + tensor("F8_E5M2", "[1]", "[0,1]") + R"(,"new":)" +
          tensor("Q9_X", "[7]", "[1,3]") + R"(,"deep":)" + tensor("U8", "[1,1,1,1,1]", "[3,4]") +
          R"(,"plain":)" + tensor("F32", "[1]", "[4,8]") + "}",
      "12345678"));
  EXPECT_THAT(checkpoint->names(), ElementsAre("deep", "new", "odd", "plain"));
  EXPECT_NE(checkpoint->find("plain"), nullptr);
  EXPECT_EQ(checkpoint->find("odd"), nullptr);
  EXPECT_THAT(std::string(checkpoint->get("odd").status().message()),
              HasSubstr("a.safetensors: tensor 'odd' has element type 'F8_E5M2'"));
  EXPECT_EQ(checkpoint->get("new").status().code(), StatusCode::unsupported);
  EXPECT_THAT(std::string(checkpoint->get("deep").status().message()),
              HasSubstr("has 5 dimensions; at most 4"));
  EXPECT_EQ(checkpoint->get("none").status().code(), StatusCode::not_found);
}

TEST_F(SafetensorsFiles, views_have_row_major_strides) {
  const auto checkpoint = open(
      safetensors_file(R"({"a":)" + tensor("U8", "[2,3,4]", "[0,24]") + "}", std::string(24, 'x')));
  const TensorView* view = checkpoint->find("a");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->rank, 3);
  EXPECT_THAT(view->stride, ElementsAre(12, 4, 1, 1));
  EXPECT_THAT(view->shape, ElementsAre(2, 3, 4, 1));
}

TEST_F(SafetensorsFiles, released_bytes_can_be_read_again) {
  const auto checkpoint = open(safetensors_file(
      R"({"a":)" + tensor("U8", "[100000]", "[0,100000]") + "}", std::string(100000, 'x')));
  const TensorView* view = checkpoint->find("a");
  checkpoint->release(*view);
  EXPECT_EQ(static_cast<const char*>(view->data)[99999], 'x');
}

// Every tensor that a header names can be read to its last byte.
void touch_all(const std::string& file) {
  const auto parsed = parse(file);
  if (!parsed.ok()) return;
  unsigned sum = 0;
  for (const SafetensorsTensor& t : parsed->tensors) {
    ASSERT_LE(t.begin, t.end);
    ASSERT_LE(parsed->data_begin + t.end, file.size());
    for (uint64_t i = t.begin; i < t.end; ++i) {
      sum += static_cast<unsigned char>(file[parsed->data_begin + i]);
    }
  }
  (void)sum;
}

TEST(SafetensorsMutations, no_truncated_file_is_accepted) {
  const ModelFolder model;
  const std::string file = safetensors_file(model.tensors);
  ASSERT_TRUE(parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_FALSE(parse(file.substr(0, size)).ok()) << size;
  }
}

TEST(SafetensorsMutations, flipped_bits_and_changed_digits_never_reach_beyond_the_file) {
  const ModelFolder model;
  const std::string whole = safetensors_file(model.tensors);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  std::mt19937_64 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string file = whole;
    for (uint64_t change = 0; change <= random() % 3; ++change) {
      char& byte = file[random() % (8 + header)];
      byte = random() % 2 ? static_cast<char>(byte ^ (1 << random() % 8))
                          : "0123456789,[]{}\"-"[random() % 17];
    }
    touch_all(file);
  }
}

class SafetensorsFolders : public testing::Test {
 protected:
  std::string refusal_of(const std::string& index) {
    folder.write_file("model.safetensors.index.json", index);
    const auto checkpoint = open_safetensors_folder(folder.path());
    EXPECT_FALSE(checkpoint.ok()) << index;
    return std::string(checkpoint.status().message());
  }
  ModelFolder folder;
};

TEST_F(SafetensorsFolders, shards_are_found_through_the_index) {
  folder.write_file("one.safetensors", safetensors_file({{"a", {DType::f32, {1}, {1}}}}));
  folder.write_file("two.safetensors", safetensors_file({{"b", {DType::f32, {1}, {2}}},
                                                         {"unlisted", {DType::f32, {1}, {3}}}}));
  folder.write_file("model.safetensors.index.json",
                    R"({"metadata":{"total_size":8},
                        "weight_map":{"b":"two.safetensors","a":"one.safetensors"}})");
  const auto checkpoint = open_safetensors_folder(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT((*checkpoint)->names(), ElementsAre("a", "b"));
  EXPECT_EQ((*checkpoint)->find("unlisted"), nullptr);
  float value = 0;
  std::memcpy(&value, (*checkpoint)->find("b")->data, sizeof(value));
  EXPECT_EQ(value, 2.0f);
  EXPECT_EQ((*checkpoint)->get("c").status().code(), StatusCode::not_found);
}

TEST_F(SafetensorsFolders, a_tensor_missing_from_its_shard_is_refused) {
  folder.write_file("one.safetensors", safetensors_file({{"a", {DType::f32, {1}, {1}}}}));
  EXPECT_THAT(refusal_of(R"({"weight_map":{"b":"one.safetensors"}})"),
              HasSubstr("one.safetensors: tensor 'b' is missing"));
}

TEST_F(SafetensorsFolders, a_missing_shard_is_refused_by_name) {
  EXPECT_THAT(refusal_of(R"({"weight_map":{"b":"gone.safetensors"}})"),
              HasSubstr("gone.safetensors': No such file"));
}

TEST_F(SafetensorsFolders, shards_outside_the_folder_are_refused) {
  for (const std::string name : {"../x", "/etc/passwd", "", ".", ".."}) {
    EXPECT_THAT(refusal_of(R"({"weight_map":{"b":")" + name + "\"}}"),
                HasSubstr("expected the name of a file in the same folder"))
        << name;
  }
}

TEST_F(SafetensorsFolders, an_index_without_a_map_is_refused) {
  EXPECT_THAT(refusal_of("{}"), HasSubstr("no object 'weight_map'"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("found a list of 0; expected a JSON object"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{"b":1}})"), HasSubstr("'weight_map' gives 1"));
  EXPECT_THAT(refusal_of(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("stands twice"));
}

}  // namespace
}  // namespace tenon
