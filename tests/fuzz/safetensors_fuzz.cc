// A safetensors header never names a byte outside its file.
#include <cstdint>
#include <cstdlib>

#include "core/model/checkpoint/safetensors.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(safetensors, const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = tenon::parse_safetensors_header(file);
  if (!header.ok()) return 0;
  uint64_t covered = 0;
  for (const tenon::SafetensorsTensor& tensor : header->tensors) {
    if (tensor.begin != covered || tensor.end < tensor.begin) std::abort();
    covered = tensor.end;
  }
  if (header->data_begin + covered != size) std::abort();
  return 0;
}
