#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/quote.h"
#include "core/files/gguf.h"

namespace tenon {
namespace {

constexpr TensorType kTensorTypes[] = {
    {0, "f32", 1, 4},  {1, "f16", 1, 2},   {9, "q8_1", 32, 40},      {15, "q8_k", 256, 292},
    {24, "i8", 1, 1},  {25, "i16", 1, 2},  {26, "i32", 1, 4},        {27, "i64", 1, 8},
    {28, "f64", 1, 8}, {30, "bf16", 1, 2}, {40, kGgufNvFp4, 64, 36},
#define TENON_GGUF_FORMAT(name, type, file_type, values, bytes, ...) {type, #name, values, bytes},
#include <tenon/formats/weight_formats.def>
};

constexpr std::string_view kTypeNames[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "text", "array", "u64", "i64", "f64"};

template <typename T>
T read_as(std::span<const std::byte> payload, uint64_t index) {
  T value;
  std::memcpy(&value, payload.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

const TensorType* find_tensor_type(uint32_t id) {
  const auto found = std::ranges::find(kTensorTypes, id, &TensorType::id);
  return found == std::end(kTensorTypes) ? nullptr : found;
}

const TensorType* find_tensor_type(std::string_view name) {
  const auto found = std::ranges::find(kTensorTypes, name, &TensorType::name);
  return found == std::end(kTensorTypes) ? nullptr : found;
}

std::string tensor_type_name(uint32_t id) {
  const TensorType* type = find_tensor_type(id);
  return type == nullptr ? "type " + std::to_string(id) : std::string(type->name);
}

std::optional<int64_t> GgufValue::integer_at(uint64_t index) const {
  switch (type_) {
    case GgufType::u8:
      return read_as<uint8_t>(payload_, index);
    case GgufType::i8:
      return read_as<int8_t>(payload_, index);
    case GgufType::u16:
      return read_as<uint16_t>(payload_, index);
    case GgufType::i16:
      return read_as<int16_t>(payload_, index);
    case GgufType::u32:
      return read_as<uint32_t>(payload_, index);
    case GgufType::i32:
      return read_as<int32_t>(payload_, index);
    case GgufType::i64:
      return read_as<int64_t>(payload_, index);
    case GgufType::u64: {
      const auto value = read_as<uint64_t>(payload_, index);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> GgufValue::integer() const {
  return is_array_ ? std::nullopt : integer_at(0);
}

std::optional<double> GgufValue::real() const {
  if (is_array_) return std::nullopt;
  if (type_ == GgufType::f32) return read_as<float>(payload_, 0);
  if (type_ == GgufType::f64) return read_as<double>(payload_, 0);
  return std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  if (is_array_ || type_ != GgufType::boolean) return std::nullopt;
  return read_as<uint8_t>(payload_, 0) != 0;
}

std::optional<std::string_view> GgufValue::text() const {
  if (is_array_ || type_ != GgufType::text) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(payload_.data()), payload_.size())
      .substr(length_bytes_);
}

std::optional<std::vector<std::string_view>> GgufValue::texts() const {
  if (!is_array_ || type_ != GgufType::text) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(count_);
  std::string_view rest(reinterpret_cast<const char*>(payload_.data()), payload_.size());
  while (!rest.empty()) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, rest.data(), length_bytes_);
    out.push_back(rest.substr(length_bytes_, bytes));
    rest.remove_prefix(length_bytes_ + bytes);
  }
  return out;
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  if (!is_array_) return std::nullopt;
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto value = type_ == GgufType::boolean
                           ? std::optional<int64_t>(read_as<uint8_t>(payload_, i) != 0)
                           : integer_at(i);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<float>> GgufValue::reals() const {
  if (!is_array_ || type_ != GgufType::f32) return std::nullopt;
  std::vector<float> out(count_);
  if (count_ > 0) std::memcpy(out.data(), payload_.data(), count_ * sizeof(float));
  return out;
}

std::string GgufValue::describe() const {
  const std::string name(kTypeNames[static_cast<size_t>(type_)]);
  if (is_array_) return "an array of " + std::to_string(count_) + " " + name;
  if (const auto value = integer()) return std::to_string(*value);
  if (const auto value = real()) return std::to_string(*value);
  if (const auto value = boolean()) return *value ? "true" : "false";
  if (const auto value = text()) return "the text " + in_quotes(*value);
  return "a " + name + " too large";
}

}  // namespace tenon
