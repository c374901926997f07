// The header of a .safetensors file; docs/formats/safetensors.md has the layout.
//
//   u64 n (little endian) | n bytes of JSON | the tensors' bytes
//
// A file is trusted with nothing: every number in the header is checked against the file's size and
// against the others before it is used.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;            // as written: "F32", "BF16", "F8_E4M3", …
  std::vector<uint64_t> shape;  // empty = a scalar
  uint64_t begin = 0;           // bytes from the start of the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  uint64_t data_begin = 0;                 // bytes from the start of the file
  std::vector<SafetensorsTensor> tensors;  // by begin; together they cover the data, no holes
};

// `file` is the whole file. Messages carry no file name.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file);

// The element type of that name, where it has a DType.
std::optional<DType> safetensors_dtype(std::string_view name);
// The name of an element type; every DType but i4 has one.
std::string_view safetensors_dtype_name(DType dtype);

}  // namespace tenon
