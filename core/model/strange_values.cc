#include "core/model/strange_values.h"

#include <tenon/sdk/linear/quant_formats.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/tensor_values.h"

namespace tenon {
namespace {

template <typename Bits>
bool all_ones(const std::byte* from, Bits exponent) {
  Bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  return (bits & exponent) == exponent;
}

// Whether the scale of a block, or what stands behind it, has the exponent of infinity and NaN.
template <class F>
bool is_strange(const std::byte* block) {
  constexpr sdk::QuantShape kShape = F::kShape;
  constexpr uint16_t kF16 = 0x7c00, kBf16 = 0x7f80;
  constexpr uint16_t kExponent = kShape.scale_type == sdk::ScaleType::bf16 ? kBf16 : kF16;
  const std::byte* scale = block + kShape.scale_at;
  bool found = false;
  if constexpr (requires { F::scale_bits(block); }) {
    found = (F::scale_bits(block) & kExponent) == kExponent;
  } else if constexpr (kShape.scale_type == sdk::ScaleType::f32) {
    found = all_ones<uint32_t>(scale, 0x7f800000);
  } else {
    found = all_ones<uint16_t>(scale, kExponent);
  }
  if constexpr (kShape.has_second()) {
    found |= all_ones<uint16_t>(scale + sdk::scale_bytes(kShape.scale_type), kF16);
  }
  return found;
}

bool are_blocks_finite(const TensorView& rows, sdk::QuantFormat format, Slice share) {
  return sdk::with_quant_format(format, [&](auto block) {
    using F = decltype(block);
    const uint64_t last = rows.shape[0] * (share.index + 1) / share.count;
    for (uint64_t row = rows.shape[0] * share.index / share.count; row < last; ++row) {
      const auto* at = static_cast<const std::byte*>(rows.data) + row * rows.stride[0];
      bool found = false;
      for (uint64_t i = 0; i + F::kShape.bytes <= rows.shape[1]; i += F::kShape.bytes) {
        found |= is_strange<F>(at + i);
      }
      if (found) return false;
    }
    return true;
  });
}

}  // namespace

bool is_finite(const Weight& weight, Slice share) {
  sdk::QuantFormat format;
  if (sdk::parse_quant_format(weight.format, format)) {
    return weight.parts.empty() || weight.parts[0].data == nullptr ||
           are_blocks_finite(weight.parts[0], format, share);
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
