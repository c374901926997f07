#include "core/files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/files/gguf_metadata.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file put together by hand, so that any part can be wrong.
struct Draft {
  uint32_t version = 3;
  std::string metadata;
  uint64_t pairs = 0;
  std::string tensors;
  uint64_t tensor_count = 0;
  std::string data;
  uint64_t alignment = 32;

  template <typename T>
  static std::string raw(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  // A count or a length, as wide as the version has it.
  std::string wide(uint64_t value) const {
    return version == 1 ? raw(static_cast<uint32_t>(value)) : raw(value);
  }
  std::string text(const std::string& value) const { return wide(value.size()) + value; }

  Draft& pair(const std::string& key, GgufType type, const std::string& value) {
    metadata += text(key) + raw(static_cast<uint32_t>(type)) + value;
    ++pairs;
    return *this;
  }
  // Extents as in the file: fastest first.
  Draft& tensor(const std::string& name, const std::vector<uint64_t>& extents, uint32_t type,
                uint64_t offset) {
    tensors += text(name) + raw(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) tensors += wide(extent);
    tensors += raw(type) + raw(offset);
    ++tensor_count;
    return *this;
  }
  std::string bytes() const {
    std::string out = "GGUF" + raw(version) + wide(tensor_count) + wide(pairs) + metadata + tensors;
    if (tensor_count > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string fault(const std::string& file) {
  const auto parsed = GgufFile::parse(as_bytes(file));
  return parsed.ok() ? "none" : std::string(parsed.status().message());
}

TEST(Gguf, every_version_is_read_with_its_width_of_counts) {
  for (const uint32_t version : {1u, 2u, 3u}) {
    Draft draft;
    draft.version = version;
    draft.pair("general.architecture", GgufType::text, draft.text("llama"));
    draft.pair("x.sizes", GgufType::array,
               Draft::raw(static_cast<uint32_t>(GgufType::u16)) + draft.wide(2) +
                   Draft::raw(uint16_t{7}) + Draft::raw(uint16_t{9}));
    draft.tensor("a", {3, 2}, kGgufF32, 0).tensor("b", {64}, kGgufQ80, 32);
    draft.data.resize(32 + 68);
    const std::string file = draft.bytes();
    const auto parsed = GgufFile::parse(as_bytes(file));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->version(), version);
    EXPECT_EQ(parsed->find("general.architecture")->text(), "llama");
    EXPECT_THAT(*parsed->find("x.sizes")->integers(), ElementsAre(7, 9));
    EXPECT_EQ(parsed->find("y"), nullptr);
    ASSERT_EQ(parsed->tensors().size(), 2u);
    EXPECT_THAT(parsed->tensors()[0].extents, ElementsAre(2, 3));
    EXPECT_EQ(parsed->tensors()[0].bytes, 24u);
    EXPECT_EQ(parsed->tensors()[1].bytes, 68u);
    EXPECT_EQ(parsed->tensors()[1].begin + 68, file.size());
  }
}

TEST(Gguf, what_the_writer_adds_is_read_back) {
  GgufMetadata metadata;
  metadata.add_count("count", 4000000000u);
  metadata.add_real("real", 0.5f);
  metadata.add_exact("exact", 0.1);
  metadata.add_flag("flag", true);
  metadata.add_text("text", "ü");
  metadata.add_texts("texts", std::vector<std::string>{"a", "", "bc"});
  metadata.add_reals("reals", std::vector<float>{1, -2});
  metadata.add_integers("integers", std::vector<int32_t>{-1, 5});
  metadata.add_bytes("bytes", "\xff\x01");
  metadata.add_flags("flags", {true, false});
  const std::string file = "GGUF" + Draft::raw(uint32_t{3}) + Draft::raw(uint64_t{0}) +
                           Draft::raw(metadata.count()) + metadata.bytes();
  const auto parsed = GgufFile::parse(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->find("count")->integer(), 4000000000);
  EXPECT_EQ(parsed->find("real")->real(), 0.5);
  EXPECT_EQ(parsed->find("exact")->real(), 0.1);
  EXPECT_EQ(parsed->find("flag")->boolean(), true);
  EXPECT_EQ(parsed->find("text")->text(), "ü");
  EXPECT_THAT(*parsed->find("texts")->texts(), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*parsed->find("reals")->reals(), ElementsAre(1, -2));
  EXPECT_THAT(*parsed->find("integers")->integers(), ElementsAre(-1, 5));
  EXPECT_THAT(*parsed->find("bytes")->integers(), ElementsAre(255, 1));
  EXPECT_THAT(*parsed->find("flags")->integers(), ElementsAre(1, 0));
}

TEST(Gguf, a_value_gives_nothing_for_another_type) {
  Draft draft;
  draft.pair("text", GgufType::text, draft.text("7"));
  draft.pair("large", GgufType::u64, Draft::raw(~uint64_t{0}));
  const std::string file = draft.bytes();
  const auto parsed = GgufFile::parse(as_bytes(file));
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->find("text")->integer());
  EXPECT_FALSE(parsed->find("text")->texts());
  EXPECT_FALSE(parsed->find("text")->real());
  EXPECT_FALSE(parsed->find("large")->integer());
  EXPECT_EQ(parsed->find("text")->describe(), "the text '7'");
}

TEST(Gguf, other_files_and_versions_are_refused_by_name) {
  EXPECT_EQ(fault(""), "does not begin with 'GGUF'; this is no GGUF file");
  EXPECT_EQ(fault("GGML\3\0\0\0"), "does not begin with 'GGUF'; this is no GGUF file");
  Draft draft;
  draft.version = 4;
  EXPECT_EQ(fault(draft.bytes()), "has GGUF version 4; versions 1, 2 and 3 are read");
  draft.version = 3u << 24;
  EXPECT_EQ(fault(draft.bytes()), "is a big-endian GGUF file; only little-endian ones are read");
}

TEST(Gguf, counts_and_lengths_beyond_the_file_are_refused_before_anything_is_allocated) {
  Draft draft;
  draft.tensor_count = uint64_t{1} << 60;
  EXPECT_THAT(fault(draft.bytes()), HasSubstr("announces 1152921504606846976 tensors"));
  draft = Draft();
  draft.pairs = uint64_t{1} << 61;
  EXPECT_THAT(fault(draft.bytes()), HasSubstr("metadata values, more than its 0 remaining"));
  draft = Draft();
  draft.pair("list", GgufType::array,
             Draft::raw(static_cast<uint32_t>(GgufType::f64)) + Draft::raw(uint64_t{1} << 62));
  EXPECT_THAT(fault(draft.bytes()), HasSubstr("metadata 'list': is cut off"));
  draft = Draft();
  draft.pair("text", GgufType::text, Draft::raw(~uint64_t{0}) + "abc");
  EXPECT_THAT(fault(draft.bytes()), HasSubstr("metadata 'text': is cut off"));
}

TEST(Gguf, a_file_cut_short_anywhere_is_refused) {
  Draft draft;
  draft.pair("general.architecture", GgufType::text, draft.text("llama"));
  draft.tensor("a", {4}, kGgufF32, 0);
  draft.data.resize(16);
  const std::string file = draft.bytes();
  ASSERT_EQ(fault(file), "none");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(fault(file.substr(0, size)), "none") << size;
  }
}

TEST(Gguf, unknown_value_types_and_deep_nesting_are_refused) {
  Draft draft;
  draft.pair("x", static_cast<GgufType>(13), "0");
  EXPECT_EQ(fault(draft.bytes()), "metadata 'x': has the unknown value type 13");
  draft = Draft();
  const std::string list = Draft::raw(uint32_t{9}) + Draft::raw(uint64_t{1});
  draft.pair("x", GgufType::array, list + list + list + list + list + list);
  EXPECT_EQ(fault(draft.bytes()), "metadata 'x': has arrays nested deeper than 4");
}

TEST(Gguf, names_that_stand_twice_are_refused) {
  Draft draft;
  draft.pair("k", GgufType::u8, "\1").pair("k", GgufType::u8, "\1");
  EXPECT_EQ(fault(draft.bytes()), "has the metadata key 'k' twice");
  draft = Draft();
  draft.tensor("a", {8}, kGgufF32, 0).tensor("a", {8}, kGgufF32, 32).data.resize(64);
  EXPECT_EQ(fault(draft.bytes()), "has the tensor 'a' twice");
}

std::string tensor_fault(const std::vector<uint64_t>& extents, uint32_t type, uint64_t offset) {
  Draft draft;
  draft.tensor("t", extents, type, offset).data.resize(64);
  return fault(draft.bytes());
}

TEST(Gguf, tensors_of_impossible_shapes_are_refused_by_name) {
  EXPECT_EQ(tensor_fault({}, kGgufF32, 0), "tensor 't' has 0 dimensions; there are 1 to 4");
  EXPECT_EQ(tensor_fault({1, 1, 1, 1, 1}, kGgufF32, 0),
            "tensor 't' has 5 dimensions; there are 1 to 4");
  EXPECT_EQ(tensor_fault({4, 0}, kGgufF32, 0), "tensor 't' has a dimension of 0");
  EXPECT_EQ(tensor_fault({uint64_t{1} << 40, uint64_t{1} << 40}, kGgufF32, 0),
            "tensor 't' has more elements than exist");
  EXPECT_EQ(tensor_fault({uint64_t{1} << 62}, kGgufF32, 0),
            "tensor 't' has a shape of more bytes than exist");
  EXPECT_EQ(tensor_fault({33, 2}, kGgufQ40, 0),
            "tensor 't' has rows of 33 elements; q4_0 stores blocks of 32");
  EXPECT_THAT(tensor_fault({17}, kGgufF32, 0), HasSubstr("needs 68 bytes from byte 0"));
  EXPECT_THAT(tensor_fault({1}, kGgufF32, uint64_t{1} << 63), HasSubstr("the file is cut off"));
  EXPECT_THAT(tensor_fault({1}, kGgufF32, 8), HasSubstr("no multiple of the alignment 32"));
}

TEST(Gguf, tensors_of_unknown_types_are_kept_without_a_size) {
  Draft draft;
  draft.tensor("t", {32}, 77, 0).data.resize(4);
  const std::string file = draft.bytes();
  const auto parsed = GgufFile::parse(as_bytes(file));
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->tensors()[0].bytes);
  EXPECT_EQ(tensor_type_name(77), "type 77");
  EXPECT_EQ(tensor_type_name(14), "q6_k");
}

TEST(Gguf, a_tensor_of_an_unknown_type_behind_the_end_of_the_file_is_refused) {
  Draft draft;
  draft.tensor("t", {32}, 77, 0);
  std::string file = draft.bytes();
  EXPECT_EQ(fault(file), "none");
  file.pop_back();
  EXPECT_THAT(fault(file), HasSubstr("the file is cut off"));
}

TEST(Gguf, tensors_that_overlap_are_refused) {
  Draft draft;
  draft.tensor("b", {16}, kGgufF32, 32).tensor("a", {9}, kGgufF32, 0).data.resize(96);
  EXPECT_EQ(fault(draft.bytes()), "tensors 'a' and 'b' overlap");
}

TEST(Gguf, the_alignment_key_moves_the_data) {
  Draft draft;
  draft.alignment = 64;
  draft.pair("general.alignment", GgufType::u32, Draft::raw(uint32_t{64}));
  draft.tensor("a", {1}, kGgufF32, 64).data.resize(68);
  const std::string file = draft.bytes();
  const auto parsed = GgufFile::parse(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->tensors()[0].begin + 4, file.size());
  for (const uint32_t bad : {0u, 4u, 12u, 1u << 30}) {
    Draft wrong;
    wrong.pair("general.alignment", GgufType::u32, Draft::raw(bad));
    EXPECT_THAT(fault(wrong.bytes()), HasSubstr("expected a multiple of 8 up to 1048576"));
  }
}

}  // namespace
}  // namespace tenon
