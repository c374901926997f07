#include "core/model/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json/json_fault.h"
#include "core/base/quote.h"
#include "core/files/git_lfs.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr size_t kMaxRank = 64;  // far above any real tensor; bounds what a header can make us hold

struct DTypeRow {
  std::string_view name;
  uint32_t bits;
  std::optional<DType> dtype;
};
constexpr DTypeRow kDTypes[] = {
    {"F32", 32, DType::f32},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I8", 8, DType::i8},
    {"I32", 32, DType::i32},
    {"I64", 64, DType::i64},
    {"U8", 8, DType::u8},
    {"BOOL", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"F64", 64, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, DType::f8_e4m3},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
};

const DTypeRow* find_dtype(std::string_view name) {
  const auto found = std::ranges::find(kDTypes, name, &DTypeRow::name);
  return found == std::end(kDTypes) ? nullptr : found;
}

// Builds the list of tensors while the JSON is read, so that a header never becomes a tree.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  std::vector<SafetensorsTensor> take_tensors() { return std::move(tensors_); }
  const std::string& fault() const { return fault_; }

  bool key(string_t& text) override {
    if (place_ == Place::top) return tensor_key(text);
    if (place_ == Place::metadata) return true;
    return field_key(text);
  }
  bool start_object(size_t) override {
    if (place_ == Place::outside && !closed_) return move_to(Place::top);
    if (place_ == Place::tensor_value) return move_to(Place::tensor);
    if (place_ == Place::metadata_value) return move_to(Place::metadata);
    return unexpected("an object");
  }
  bool end_object() override {
    if (place_ == Place::tensor) return finish_tensor();
    if (place_ == Place::top) closed_ = true;
    return move_to(place_ == Place::metadata ? Place::top : Place::outside);
  }
  bool start_array(size_t) override {
    if (place_ == Place::shape_value) return move_to(Place::shape);
    if (place_ == Place::offsets_value) return move_to(Place::offsets);
    return unexpected("a list");
  }
  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) return refuse(here() + "needs two data_offsets");
    return move_to(Place::tensor);
  }
  bool string(string_t& text) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::dtype_value) return unexpected("a text");
    tensor_.dtype = text;
    return move_to(Place::tensor);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      tensor_.shape.push_back(value);
      return tensor_.shape.size() <= kMaxRank || refuse(here() + "has too many dimensions");
    }
    if (place_ != Place::offsets) return unexpected("a number");
    (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
    return ++offsets_ <= 2 || refuse(here() + "needs two data_offsets");
  }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return refuse("is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place {
    outside,
    top,
    metadata_value,
    metadata,
    tensor_value,
    tensor,
    dtype_value,
    shape_value,
    shape,
    offsets_value,
    offsets
  };

  bool tensor_key(const std::string& text) {
    if (!names_.insert(text).second) return refuse("names " + in_quotes(text) + " twice");
    if (text == "__metadata__") return move_to(Place::metadata_value);
    tensor_ = {};
    tensor_.name = text;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    offsets_ = 0;
    return move_to(Place::tensor_value);
  }
  bool field_key(const std::string& text) {
    if (text == "dtype") return begin_field(seen_dtype_, Place::dtype_value, text);
    if (text == "shape") return begin_field(seen_shape_, Place::shape_value, text);
    if (text == "data_offsets") return begin_field(seen_offsets_, Place::offsets_value, text);
    return refuse(here() + "has an unknown field " + in_quotes(text));
  }
  bool begin_field(bool& seen, Place next, const std::string& text) {
    if (seen) return refuse(here() + "has " + in_quotes(text) + " twice");
    seen = true;
    return move_to(next);
  }
  bool finish_tensor() {
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_) {
      return refuse(here() + "needs dtype, shape and data_offsets");
    }
    tensors_.push_back(std::move(tensor_));
    return move_to(Place::top);
  }
  bool move_to(Place place) {
    place_ = place;
    return true;
  }
  std::string here() const { return "tensor " + in_quotes(tensor_.name) + " "; }
  bool unexpected(std::string_view what) {
    const bool inside = place_ >= Place::tensor_value;
    return refuse((inside ? here() : std::string()) + "has " + std::string(what) +
                  " where none belongs");
  }
  bool refuse(std::string text) {
    fault_ = std::move(text);
    return false;
  }

  Place place_ = Place::outside;
  bool closed_ = false;
  SafetensorsTensor tensor_;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
  uint32_t offsets_ = 0;
  std::vector<SafetensorsTensor> tensors_;
  std::set<std::string> names_;
  std::string fault_;
};

// The JSON text, its length checked against the file.
Result<std::string_view> header_text(std::span<const std::byte> file) {
  TENON_RETURN_IF_ERROR(check_no_git_lfs_pointer(file));
  if (file.size() < 8) {
    return invalid_argument("has " + std::to_string(file.size()) +
                            " bytes; a safetensors file starts with 8 that give its header length");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (length > kMaxSafetensorsHeaderBytes) {
    return invalid_argument("announces a header of " + std::to_string(length) + " bytes; at most " +
                            std::to_string(kMaxSafetensorsHeaderBytes) +
                            " are allowed, so this is no safetensors file");
  }
  if (length > file.size() - 8) {
    return invalid_argument("announces a header of " + std::to_string(length) +
                            " bytes but has only " + std::to_string(file.size()) +
                            " bytes; it is truncated, fetch it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  // JSON itself would allow leading blanks and the parser would stop at a zero byte.
  if (text.empty() || text.front() != '{' || text.find('\0') != std::string_view::npos) {
    return invalid_argument("header is not a JSON object; this is no safetensors file");
  }
  return text;
}

// a · b, or nothing on overflow.
std::optional<uint64_t> times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Bytes that shape and dtype ask for; nothing on overflow or where bits do not fill bytes. Zero
// extents count as one while overflow is checked, so that strides never wrap either.
std::optional<uint64_t> byte_size(const std::vector<uint64_t>& shape, uint32_t bits) {
  std::optional<uint64_t> total = bits;
  for (const uint64_t extent : shape) {
    if (total) total = times(*total, std::max<uint64_t>(extent, 1));
  }
  if (!total || *total % 8 != 0) return std::nullopt;
  return std::ranges::count(shape, 0u) > 0 ? 0 : *total / 8;
}

Status check_size(const SafetensorsTensor& tensor) {
  const DTypeRow* row = find_dtype(tensor.dtype);
  const uint64_t held = tensor.end - tensor.begin;
  if (row == nullptr) return {};  // from a newer format: kept, and refused when it is needed
  const std::optional<uint64_t> needed = byte_size(tensor.shape, row->bits);
  if (needed && *needed == held) return {};
  return invalid_argument("tensor " + in_quotes(tensor.name) + " has " + std::to_string(held) +
                          " bytes; its shape of " + std::string(row->name) + " needs " +
                          (needed ? std::to_string(*needed) : std::string("more than exist")));
}

// Tensors in the order of their bytes cover the data exactly: no overlap, no hole, no rest.
Status check_cover(const std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.end < tensor.begin) {
      return invalid_argument("tensor " + in_quotes(tensor.name) + " ends before it begins");
    }
    if (tensor.end > data_bytes) {
      return invalid_argument("tensor " + in_quotes(tensor.name) + " ends at byte " +
                              std::to_string(tensor.end) + " of " + std::to_string(data_bytes) +
                              " bytes of data; the file is truncated, fetch it again");
    }
    if (tensor.begin != covered) {
      return invalid_argument("tensor " + in_quotes(tensor.name) + " begins at byte " +
                              std::to_string(tensor.begin) + "; the one before it ends at " +
                              std::to_string(covered) + ", and overlaps and holes are not allowed");
    }
    TENON_RETURN_IF_ERROR(check_size(tensor));
    covered = tensor.end;
  }
  if (covered == data_bytes) return {};
  return invalid_argument("tensors cover " + std::to_string(covered) + " of " +
                          std::to_string(data_bytes) + " bytes of data; holes are not allowed");
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file) try {
  TENON_ASSIGN_OR_RETURN(const std::string_view text, header_text(file));
  HeaderReader reader;
  if (!json::sax_parse(text, &reader)) return invalid_argument("header " + reader.fault());
  SafetensorsHeader header;
  header.data_begin = 8 + text.size();
  header.tensors = reader.take_tensors();
  // Empty tensors share their begin with the one after them and come first.
  std::ranges::sort(header.tensors, [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  TENON_RETURN_IF_ERROR(check_cover(header.tensors, file.size() - header.data_begin));
  return header;
} catch (const std::exception& error) {
  return failed("cannot read the header: " + json_fault(error.what()));
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  const DTypeRow* row = find_dtype(name);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string_view safetensors_dtype_name(DType dtype) {
  const auto found = std::ranges::find(kDTypes, std::optional(dtype), &DTypeRow::dtype);
  return found == std::end(kDTypes) ? std::string_view() : found->name;
}

}  // namespace tenon
