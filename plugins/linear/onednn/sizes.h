// Sizes of weights and rows, in values and bytes.
#pragma once

#include <cstdint>

namespace tenon::onednn {

enum class Format : uint32_t { f32 = 0, bf16 = 1 };

constexpr uint64_t value_bytes(Format format) {
  return format == Format::f32 ? 4 : 2;
}

// Columns of y that lie together in packed weights; what slices share out.
inline constexpr uint32_t kPanelColumns = 64;

// Rows of x and of W are filled up with zeros to whole steps. oneDNN packs blocks of 16 (f32) or 32
// (bf16) values; a matrix without remainders has no padding that it would want to write to.
inline constexpr uint32_t kStep = 32;

// Always inlined, as it is used by sources of several instruction sets.
[[gnu::always_inline]] constexpr uint64_t padded(uint32_t k_in) {
  return (uint64_t{k_in} + kStep - 1) / kStep * kStep;
}
// One prepared row, in the weight's format. Rows lie close together: with gaps, oneDNN falls back
// from its blocked multiplication to an older one.
constexpr uint64_t row_bytes(Format format, uint32_t k_in) {
  return padded(k_in) * value_bytes(format);
}

}  // namespace tenon::onednn
