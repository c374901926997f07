#include "core/model/tensors/weight_rows.h"

#include <string>
#include <vector>

#include "core/base/quote.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

bool is_blocks(const Weight& weight, const QuantFormat& format) {
  const TensorView& part = weight.parts[0];
  return part.dtype == DType::u8 && weight.k_in % format.elements == 0 &&
         part.shape[0] == weight.n_out && part.shape[1] == format.row_bytes(weight.k_in) &&
         part.stride[1] == 1;
}

bool is_plain(const Weight& weight) {
  const TensorView& part = weight.parts[0];
  return is_plain_type(part.dtype) && part.shape[0] == weight.n_out && part.shape[1] == weight.k_in;
}

}  // namespace

Status readable_by_rows(const Weight& weight) {
  const QuantFormat* blocks = find_quant_format(weight.format);
  const size_t most = blocks != nullptr ? 2 : 1;
  if (!weight.parts.empty() && weight.parts.size() <= most && weight.parts[0].data != nullptr) {
    if (blocks != nullptr ? is_blocks(weight, *blocks) : is_plain(weight)) return {};
  }
  return unsupported(in_quotes(weight.name) + " has format " + in_quotes(weight.format) +
                     "; expected one matrix of " + weight_formats_text());
}

void read_row(const Weight& weight, uint32_t row, float* out) {
  const TensorView& part = weight.parts[0];
  const uint64_t stored = weight.view().stored_row(row);
  if (const QuantFormat* blocks = find_quant_format(weight.format)) {
    const auto* bytes = static_cast<const std::byte*>(part.data) + stored * part.stride[0];
    if (weight.parts.size() == 1) return dequantize_row(*blocks, bytes, weight.k_in, out);
    std::vector<float> values(weight.k_in);
    dequantize_row(*blocks, bytes, weight.k_in, values.data());
    const auto* order = static_cast<const int32_t*>(weight.parts[1].data);
    for (uint32_t k = 0; k < weight.k_in; ++k) out[static_cast<uint32_t>(order[k])] = values[k];
    return;
  }
  for (uint32_t k = 0; k < weight.k_in; ++k) {
    out[k] = element(part, stored * part.stride[0] + k * part.stride[1]);
  }
}

}  // namespace tenon
