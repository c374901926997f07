// The container GGUF, versions 1, 2 and 3, little-endian; docs/formats/gguf.md has the layout.
//
//   "GGUF" | version | counts | metadata: key, type, value … | tensor directory | padding | data
//
// It lives here because two rooms read it: core/model takes the weights, core/tokenizer the
// vocabulary. A file is trusted with nothing: every length, count and offset is checked against the
// file before it is used, and nothing is allocated that the file's own size does not justify.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// Types of metadata values, as numbered in the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12
};

// How a tensor's elements are stored: in blocks along a row, one element a block where plain.
struct TensorType {
  uint32_t id;
  std::string_view name;  // as others write it, in lower case: "q8_0", "iq4_xs"
  uint32_t block_elements;
  uint32_t block_bytes;
};
inline constexpr uint32_t kGgufF32 = 0, kGgufF16 = 1, kGgufQ40 = 2, kGgufQ80 = 8, kGgufBf16 = 30;
// The type whose matrices may each have a factor, in a tensor of its own.
inline constexpr std::string_view kGgufNvFp4 = "nvfp4";
// Null when the type is unknown here.
const TensorType* find_tensor_type(uint32_t id);
const TensorType* find_tensor_type(std::string_view name);
// Its name, or "type 77".
std::string tensor_type_name(uint32_t id);

// One metadata value, borrowed from the file. The accessors give nothing for another type; whole
// numbers and fractions are read from any width.
class GgufValue {
 public:
  GgufValue() = default;
  GgufValue(GgufType type, uint64_t count, std::span<const std::byte> payload,
            uint32_t length_bytes, bool is_array)
      : type_(type),
        is_array_(is_array),
        length_bytes_(length_bytes),
        count_(count),
        payload_(payload) {}

  bool is_array() const { return is_array_; }
  GgufType type() const { return type_; }    // of the elements of an array
  uint64_t count() const { return count_; }  // 1 for what is no array
  std::optional<int64_t> integer() const;    // not above the largest int64
  std::optional<double> real() const;        // f32 and f64
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;
  // Of an array.
  std::optional<std::vector<std::string_view>> texts() const;
  std::optional<std::vector<int64_t>> integers() const;  // booleans count as 0 and 1
  std::optional<std::vector<float>> reals() const;       // f32 only
  // As stored, little-endian.
  std::span<const std::byte> payload() const { return payload_; }
  // For messages: "an array of 3 u32", "the text 'llama'", "7".
  std::string describe() const;

 private:
  std::optional<int64_t> integer_at(uint64_t index) const;

  GgufType type_ = GgufType::u8;
  bool is_array_ = false;
  uint32_t length_bytes_ = 8;  // of the length before a text
  uint64_t count_ = 0;
  std::span<const std::byte> payload_;
};

struct GgufTensor {
  std::string name;
  uint32_t type = 0;              // TensorType::id, perhaps unknown
  std::vector<uint64_t> extents;  // slowest first: [rows, columns]; 1 to 4, none is zero
  uint64_t begin = 0;             // bytes from the start of the file
  std::optional<uint64_t> bytes;  // nothing where the type is unknown
  uint32_t part = 0;              // which file of a model in parts (core/files/gguf_parts.h)
};

class GgufFile {
 public:
  // `bytes` is the whole file and outlives the result. Messages carry no file name.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);
  // A model's parts, in order, as one: the metadata of the first, the tensors of all. Error:
  // invalid_argument, where two parts have a tensor of the same name.
  static Result<GgufFile> join(std::vector<GgufFile> parts);
  // Whether a file begins like one, whatever follows.
  static bool has_magic(std::span<const std::byte> bytes);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  // Null when there is none of that key.
  const GgufValue* find(std::string_view key) const;
  // In the order of their parts, and of their bytes.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata_;  // sorted by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace tenon
