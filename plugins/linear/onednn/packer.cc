#include "plugins/linear/onednn/packer.h"

#include <algorithm>
#include <cstring>

namespace tenon::onednn {
namespace {

dnnl::memory::desc staged_desc(const Layout& layout) {
  const dnnl::memory::dims shape = {static_cast<int64_t>(padded(layout.k_in)), kPanelColumns};
  return {shape, data_type(layout.format), dnnl::memory::format_tag::ba};
}

}  // namespace

// Staged first because a checkpoint's tensors begin at any address and end where they end.
Packer::Packer(const dnnl::engine& engine, const Layout& layout)
    : layout_(layout),
      staged_(layout.panel_bytes()),
      from_(staged_desc(layout), engine, staged_.data()),
      to_(layout.panels(1), engine, DNNL_MEMORY_NONE),
      reorder_(from_, to_),
      stream_(engine) {}

void Packer::pack(const WeightView& weight, uint32_t panel, std::byte* to) {
  stage(weight, panel);
  to_.set_data_handle(to);
  reorder_.execute(stream_, from_, to_);
}

void Packer::stage(const WeightView& weight, uint32_t panel) {
  const uint64_t value = value_bytes(layout_.format);
  const TensorView& tensor = weight.parts[0];
  const uint64_t first = uint64_t{panel} * kPanelColumns;
  const uint64_t rows = std::min<uint64_t>(kPanelColumns, weight.n_out - first);
  const uint64_t staged_row = padded(layout_.k_in) * value;
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t stored = weight.stored_row(static_cast<uint32_t>(first + r));
    std::memcpy(staged_.data() + r * staged_row,
                static_cast<const std::byte*>(tensor.data) + stored * tensor.stride[0] * value,
                layout_.k_in * value);
  }
  std::fill(staged_.begin() + static_cast<int64_t>(rows * staged_row), staged_.end(), std::byte{0});
}

}  // namespace tenon::onednn
