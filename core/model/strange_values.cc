#include "core/model/strange_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

bool are_blocks_finite(const Weight& weight, const QuantFormat& format, Slice share) {
  const TensorView& rows = weight.parts[0];
  const uint64_t last = rows.shape[0] * (share.index + 1) / share.count;
  for (uint64_t row = rows.shape[0] * share.index / share.count; row < last; ++row) {
    const auto* at = static_cast<const std::byte*>(rows.data) + row * rows.stride[0];
    if (!is_finite_row(format, at, weight.k_in)) return false;
  }
  return true;
}

}  // namespace

bool is_finite(const Weight& weight, Slice share) {
  if (const QuantFormat* format = find_quant_format(weight.format)) {
    return weight.parts.empty() || weight.parts[0].data == nullptr ||
           are_blocks_finite(weight, *format, share);
  }
  return std::ranges::all_of(weight.parts, [share](const TensorView& part) {
    return part.data == nullptr || !is_plain_type(part.dtype) ||
           std::isfinite(largest_magnitude(part, share));
  });
}

void warn_of_strange_values(std::span<const std::string> tensors) {
  constexpr size_t kMostNamed = 3;
  if (tensors.empty()) return;
  const size_t named = std::min(tensors.size(), kMostNamed);
  std::string text =
      "values that are no finite numbers, so that what is computed with them is none either: "
      "tensor";
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? " " : ", ") + in_quotes(tensors[i]);
  if (tensors.size() > named) {
    text += " and " + std::to_string(tensors.size() - named) + " more";
  }
  log(LogLevel::warning, "model", text);
}

}  // namespace tenon
