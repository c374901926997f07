#include "plugins/linear/onednn/layout.h"

#include <tenon/sdk/half.h>

#include <cstring>
#include <string_view>

namespace tenon::onednn {
namespace {

using dnnl::memory;

// oneDNN sees W as [k, columns]; so are its two dimensions numbered.
constexpr int kK = 0;
constexpr int kColumn = 1;
constexpr uint32_t kProbePanels = 8;

// A position along one dimension, as the distance from position 0. Distances of the two add up.
uint64_t distance(const dnnl_memory_desc_t& desc, int dimension, uint64_t position) noexcept {
  const dnnl_blocking_desc_t& blocks = desc.format_desc.blocking;
  uint64_t inner_stride = 1;
  uint64_t made = 0;
  for (int i = blocks.inner_nblks - 1; i >= 0; --i) {
    const auto size = static_cast<uint64_t>(blocks.inner_blks[i]);
    if (blocks.inner_idxs[i] == dimension) {
      made += position % size * inner_stride;
      position /= size;
    }
    inner_stride *= size;
  }
  return made + position * static_cast<uint64_t>(blocks.strides[dimension]);
}

// Values along a dimension that lie in one innermost block.
uint64_t block_of(const dnnl_blocking_desc_t& blocks, int dimension) noexcept {
  uint64_t block = 1;
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    if (blocks.inner_idxs[i] == dimension) block *= static_cast<uint64_t>(blocks.inner_blks[i]);
  }
  return block;
}

float value_at(Format format, const std::byte* from) noexcept {
  if (format == Format::f32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, from, sizeof(half));
  return sdk::bf16_to_float(half);
}

// Panels one behind the other, nothing between them, and nothing in them but values.
bool runs_panel_by_panel(const dnnl_memory_desc_t& desc) {
  if (desc.format_kind != dnnl_blocked || desc.extra.flags != 0 || desc.offset0 != 0) return false;
  const dnnl_blocking_desc_t& blocks = desc.format_desc.blocking;
  const uint64_t block = block_of(blocks, kColumn);
  const auto k = static_cast<uint64_t>(desc.dims[kK]);
  return kPanelColumns % block == 0 && desc.padded_dims[kK] == desc.dims[kK] &&
         static_cast<uint64_t>(blocks.strides[kColumn]) == k * block;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Layout& layout,
                                      const memory::desc& weights, uint32_t rows, uint32_t panels) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::desc product(rows_desc(layout.format, rows, layout.k_in), weights,
                                   sums_desc(rows, panels));
  return {product, attributes, engine};
}

// Whether oneDNN multiplies this layout with more than its reference code, for few and many rows.
bool is_fast(const dnnl::engine& engine, const Layout& layout) {
  for (uint32_t rows : {1u, 2u, 64u, 512u}) {
    try {
      const auto found = describe_product(engine, layout, rows, kProbePanels);
      if (std::string_view(found.impl_info_str()).starts_with("ref")) return false;
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) throw;
      return false;
    }
  }
  return true;
}

bool try_layout(const dnnl::engine& engine, const memory::desc& wanted, Layout& layout) {
  layout.panel = wanted.data;
  if (!runs_panel_by_panel(layout.panel)) return false;
  layout.panel.dims[kColumn] = layout.panel.padded_dims[kColumn] = kPanelColumns;
  return is_fast(engine, layout);
}

}  // namespace

memory::desc Layout::panels(uint32_t count) const {
  dnnl_memory_desc_t run = panel;
  run.dims[kColumn] = run.padded_dims[kColumn] = int64_t{count} * kPanelColumns;
  return memory::desc(run);
}

void Layout::read_column(const std::byte* panel_data, uint32_t column, float* out) const noexcept {
  const dnnl_blocking_desc_t& blocks = panel.format_desc.blocking;
  const uint64_t block = block_of(blocks, kK);
  const uint64_t next = static_cast<uint64_t>(blocks.strides[kK]) * value_bytes(format);
  for (uint64_t first = 0; first < block; ++first) {
    const uint64_t at = distance(panel, kColumn, column) + distance(panel, kK, first);
    const std::byte* from = panel_data + at * value_bytes(format);
    for (uint64_t k = first; k < k_in; k += block, from += next) out[k] = value_at(format, from);
  }
}

memory::desc rows_desc(Format format, uint32_t rows, uint32_t k_in) {
  const memory::dims shape = {rows, static_cast<int64_t>(padded(k_in))};
  return {shape, data_type(format), memory::format_tag::ab};
}
memory::desc sums_desc(uint32_t rows, uint32_t panels) {
  const memory::dims shape = {rows, int64_t{panels} * kPanelColumns};
  return {shape, memory::data_type::f32, memory::format_tag::ab};
}

dnnl::matmul::primitive_desc describe_product(const dnnl::engine& engine, const Layout& layout,
                                              uint32_t rows, uint32_t panels) {
  return describe(engine, layout, layout.panels(panels), rows, panels);
}

bool find_layout(const dnnl::engine& engine, Format format, uint32_t k_in, Layout& layout) {
  layout.format = format;
  layout.k_in = k_in;
  const memory::dims shape = {static_cast<int64_t>(padded(k_in)), kProbePanels * kPanelColumns};
  try {
    const memory::desc any(shape, data_type(format), memory::format_tag::any);
    const auto chosen = describe(engine, layout, any, 64, kProbePanels);
    if (try_layout(engine, chosen.weights_desc(), layout)) return true;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw;
    return false;
  }
  // Where oneDNN wants the columns of all panels side by side: rows of W one behind the other, as
  // checkpoints have them.
  return try_layout(engine, memory::desc(shape, data_type(format), memory::format_tag::ba), layout);
}

}  // namespace tenon::onednn
