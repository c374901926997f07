// Weights quantised in blocks of 32 along a row, each block with one scale: the formats that GGUF
// files call Q8_0 and Q4_0. docs/formats/gguf.md shows the bits.
//
//   q8_0   34 bytes   f16 d | 32 x i8 q                                    value = d * q
//   q4_0   18 bytes   f16 d | 16 x u8: low nibbles q[0..15], high q[16..31]  value = d * (q - 8)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class BlockFormat { q8_0, q4_0 };

inline constexpr uint32_t kBlockElements = 32;

constexpr uint32_t block_bytes(BlockFormat format) {
  return format == BlockFormat::q8_0 ? 34 : 18;
}
// Bytes of a row of `elements`, a multiple of 32.
constexpr uint64_t block_row_bytes(BlockFormat format, uint64_t elements) {
  return elements / kBlockElements * block_bytes(format);
}
// Nothing when it is another format.
std::optional<BlockFormat> find_block_format(std::string_view name);

// Values of one row; each is exact in f32. `elements` is a multiple of 32; any alignment.
void dequantize_row(BlockFormat format, const std::byte* row, uint64_t elements, float* out);
// The nearest blocks, as ggml's reference quantisers define them: q8_0 scales the largest magnitude
// to 127; q4_0 scales the value of largest magnitude to -8. Values are finite.
void quantize_row(BlockFormat format, const float* values, uint64_t elements, std::byte* out);

}  // namespace tenon
