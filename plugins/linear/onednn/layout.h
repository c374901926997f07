// How weights lie in memory: oneDNN's own choice for the format and the length of a row, cut into
// panels of 64 columns of y. Panels follow one another, and any run of them is a whole matrix to
// oneDNN, so slices may take what they like.
//
//   f32, AVX-512:   panel 0                              panel 1
//                   k 0-15: [16 k][64 columns] | 16-31 … | k 0-15 …
#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "plugins/linear/onednn/sizes.h"

namespace tenon::onednn {

constexpr dnnl::memory::data_type data_type(Format format) {
  return format == Format::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Plain data.
struct Layout {
  Format format = Format::f32;
  uint32_t k_in = 0;
  dnnl_memory_desc_t panel = {};  // W [padded(k_in), kPanelColumns]

  uint64_t panel_bytes() const noexcept {
    return padded(k_in) * kPanelColumns * value_bytes(format);
  }
  dnnl::memory::desc panels(uint32_t count) const;
  // The values of W[column] in the first panel, as f32 [k_in].
  void read_column(const std::byte* panel_data, uint32_t column, float* out) const noexcept;
};

// Packed weights: this, then panels.
struct alignas(64) PackedHeader {
  Layout layout;
};
inline const Layout& layout_of(const void* packed) noexcept {
  return static_cast<const PackedHeader*>(packed)->layout;
}
inline const std::byte* panel_of(const void* packed, uint64_t panel) noexcept {
  return static_cast<const std::byte*>(packed) + sizeof(PackedHeader) +
         panel * layout_of(packed).panel_bytes();
}

// x [rows, k_in] as `prepare` leaves it, and sums [rows, panels].
dnnl::memory::desc rows_desc(Format format, uint32_t rows, uint32_t k_in);
dnnl::memory::desc sums_desc(uint32_t rows, uint32_t panels);

// Primitives with scratch memory of ours. Throws dnnl::error when oneDNN cannot.
dnnl::matmul::primitive_desc describe_product(const dnnl::engine& engine, const Layout& layout,
                                              uint32_t rows, uint32_t panels);

// The layout that oneDNN wants; false when it has only its reference code for this, which is
// slower by orders of magnitude. Throws std::bad_alloc, dnnl::error.
bool find_layout(const dnnl::engine& engine, Format format, uint32_t k_in, Layout& layout);

}  // namespace tenon::onednn
