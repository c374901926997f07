// Weights of a checkpoint, brought into oneDNN's layout panel by panel.
#pragma once

#include <tenon/linear.h>

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "plugins/linear/onednn/layout.h"

namespace tenon::onednn {

// The caller holds a OneThread. Throws dnnl::error, std::bad_alloc.
class Packer {
 public:
  Packer(const dnnl::engine& engine, const Layout& layout);
  // `weight`: plain, row-major, as the layout's format and k_in say.
  void pack(const WeightView& weight, uint32_t panel, std::byte* to);

 private:
  void stage(const WeightView& weight, uint32_t panel);

  const Layout& layout_;
  std::vector<std::byte> staged_;  // [kPanelColumns, padded(k_in)], zeros where W has nothing
  dnnl::memory from_, to_;
  dnnl::reorder reorder_;
  dnnl::stream stream_;
};

}  // namespace tenon::onednn
