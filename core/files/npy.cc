#include "core/files/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are copied as they are");

constexpr size_t kLargestArrayBytes = size_t{4} << 30;

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct Header {
  std::string_view type;  // "<f4", "<i4", "<i8", …
  std::vector<uint64_t> shape;
  uint64_t count = 1;
  std::string_view data;
};

// The dictionary's text and what follows it. Version 1 has a 16-bit length, later ones 32 bits.
Result<std::string_view> dictionary(std::string_view file, std::string_view& data) {
  if (file.size() < 12 || !file.starts_with(kMagic)) {
    return invalid_argument("is no .npy file; expected one that numpy.save wrote");
  }
  const size_t length_bytes = file[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, length_bytes);
  const size_t start = 8 + length_bytes;
  if (length > file.size() - start) return invalid_argument("is truncated inside its header");
  data = file.substr(start + length);
  return file.substr(start, length);
}

// The text after "'key':", blanks skipped; empty where there is none.
std::string_view value_of(std::string_view text, std::string_view key) {
  const size_t found = text.find("'" + std::string(key) + "':");
  if (found == std::string_view::npos) return {};
  const size_t value = text.find_first_not_of(' ', found + key.size() + 3);
  return value == std::string_view::npos ? std::string_view() : text.substr(value);
}

// "(2, 3)" → {2, 3}. False where it is anything else or the product overflows.
bool read_shape(std::string_view text, Header& header) {
  if (!text.starts_with('(')) return false;
  for (size_t i = 1; i < text.size() && text[i] != ')';) {
    uint64_t extent = 0;
    const size_t first = i;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      const uint64_t digit = static_cast<uint64_t>(text[i] - '0');
      if (__builtin_mul_overflow(extent, 10, &extent)) return false;
      if (__builtin_add_overflow(extent, digit, &extent)) return false;
    }
    if (i == first || __builtin_mul_overflow(header.count, extent, &header.count)) return false;
    header.shape.push_back(extent);
    while (i < text.size() && (text[i] == ',' || text[i] == ' ')) ++i;
  }
  return true;
}

Result<Header> read_header(std::string_view file) {
  Header header;
  TENON_ASSIGN_OR_RETURN(const std::string_view text, dictionary(file, header.data));
  const std::string_view type = value_of(text, "descr");
  if (type.size() < 5 || type[0] != '\'' || type[4] != '\'') {
    return invalid_argument("has no simple element type; expected '<f4', '<i4' or '<i8'");
  }
  header.type = type.substr(1, 3);
  if (!value_of(text, "fortran_order").starts_with("False")) {
    return invalid_argument("is in Fortran order; save numpy.ascontiguousarray of it");
  }
  if (!read_shape(value_of(text, "shape"), header)) {
    return invalid_argument("has no shape that can be read");
  }
  return header;
}

template <typename T>
Result<std::vector<T>> values_of(const Header& header) {
  if (header.count > header.data.size() / sizeof(T)) {
    return invalid_argument("has " + std::to_string(header.data.size()) + " bytes of data for " +
                            std::to_string(header.count) + " values; it is truncated");
  }
  std::vector<T> values(header.count);
  if (!values.empty()) std::memcpy(values.data(), header.data.data(), values.size() * sizeof(T));
  return values;
}

Result<NpyArray<float>> to_f32(const Header& header) {
  if (header.type != "<f4") {
    return invalid_argument("holds " + in_quotes(header.type) + "; expected float32");
  }
  TENON_ASSIGN_OR_RETURN(std::vector<float> values, values_of<float>(header));
  return NpyArray<float>{header.shape, std::move(values)};
}

Result<NpyArray<int32_t>> to_i32(const Header& header) {
  NpyArray<int32_t> array{header.shape, {}};
  if (header.type == "<i4") {
    TENON_ASSIGN_OR_RETURN(array.values, values_of<int32_t>(header));
    return array;
  }
  if (header.type != "<i8") {
    return invalid_argument("holds " + in_quotes(header.type) + "; expected int32 or int64");
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> wide, values_of<int64_t>(header));
  array.values.reserve(wide.size());
  for (const int64_t value : wide) {
    if (value != static_cast<int32_t>(value)) {
      return invalid_argument("holds " + std::to_string(value) + "; expected 32-bit integers");
    }
    array.values.push_back(static_cast<int32_t>(value));
  }
  return array;
}

template <typename Convert>
auto read(const std::string& path, Convert convert) -> decltype(convert(Header())) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kLargestArrayBytes) {
    return invalid_argument(path_in_quotes(path) + " has " + std::to_string(file.bytes().size()) +
                            " bytes; arrays of at most " + std::to_string(kLargestArrayBytes) +
                            " are read");
  }
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  Result<Header> header = read_header(bytes);
  if (!header.ok()) return with_context(path, header.status());
  auto array = convert(*header);
  if (!array.ok()) return with_context(path, array.status());
  return array;
}

Status write(const std::string& path, std::string_view type, const void* values, uint64_t bytes,
             std::span<const uint64_t> shape) {
  std::string dictionary = "{'descr': '" + std::string(type) + "', 'fortran_order': False, ";
  dictionary += "'shape': (";
  for (const uint64_t extent : shape) dictionary += std::to_string(extent) + ", ";
  dictionary += "), }";
  // The data starts at a multiple of 64; the last byte before it ends the line.
  dictionary.append(64 - (10 + dictionary.size() + 1) % 64, ' ');
  dictionary += '\n';
  const auto length = static_cast<uint16_t>(dictionary.size());
  return write_file(path, {kMagic,
                           std::string_view("\x01\x00", 2),
                           {reinterpret_cast<const char*>(&length), 2},
                           dictionary,
                           {static_cast<const char*>(values), bytes}});
}

}  // namespace

Result<NpyArray<float>> read_npy_f32(const std::string& path) {
  return read(path, to_f32);
}
Result<NpyArray<int32_t>> read_npy_i32(const std::string& path) {
  return read(path, to_i32);
}

Status write_npy(const std::string& path, std::span<const float> values,
                 std::span<const uint64_t> shape) {
  return write(path, "<f4", values.data(), values.size_bytes(), shape);
}
Status write_npy(const std::string& path, std::span<const int32_t> values,
                 std::span<const uint64_t> shape) {
  return write(path, "<i4", values.data(), values.size_bytes(), shape);
}

}  // namespace tenon
