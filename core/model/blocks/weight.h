// A weight matrix as a checkpoint stores it.
#pragma once

#include <tenon/linear.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// A weight matrix [n_out, k_in] with the storage its view points to.
struct Weight {
  std::string name;
  std::string
      format;  // "f32", "f16", "bf16", or of blocks: "q8_0" (core/model/formats/quant_format.h)
  uint32_t n_out = 0;  // 0: the layer has no such matrix
  uint32_t k_in = 0;
  std::vector<TensorView> parts;
  std::span<const uint32_t> row_order = {};  // as in WeightView; the checkpoint's

  WeightView view() const { return {format, name, n_out, k_in, parts, row_order}; }
};

}  // namespace tenon
