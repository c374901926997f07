// Where the scale of a block stands in each format, and what its codes are: for those who make
// blocks of random bytes. The words are those of <tenon/formats/weight_formats.def>.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

// What multiplies a whole block.
enum class BlockScale : uint8_t { f16, f16x2, f32, power, nibbles };
// What a value is stored as.
enum class BlockCodes : uint8_t { integers, levels, floats };

// Of one format.
struct BlockScales {
  std::string_view format;                  // its name
  BlockScale scale = BlockScale::f16;       // which kind
  uint32_t at = 0;                          // bytes into a block
  BlockCodes codes = BlockCodes::integers;  // which kind
};
// Of every format, in the order of the table.
inline constexpr BlockScales kBlockScales[] = {
#define TENON_FORMAT(name, values, bytes, scales, at, codes, ...) \
  {#name, BlockScale::scales, at, BlockCodes::codes},
#include <tenon/formats/weight_formats.def>
};

// Of a format that is there.
constexpr const BlockScales& block_scales_of(std::string_view format) noexcept {
  const BlockScales* found = kBlockScales;
  while (found->format != format) ++found;
  return *found;
}

}  // namespace tenon
