#include "core/model/tensors/tensor_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// The highest of `count` numbers without their sign, whose order is that of the bits. In lanes, so
// that a compiler makes vectors of it. `Bits` is signed: none has its sign bit left.
template <typename Bits>
Bits largest_bits(const std::byte* data, uint64_t count) {
  constexpr size_t kLanes = 64 / sizeof(Bits);
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
  std::array<Bits, kLanes> most{}, some{};
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    std::memcpy(some.data(), data + i * sizeof(Bits), sizeof(some));
    for (size_t lane = 0; lane < kLanes; ++lane) {
      most[lane] = std::max(most[lane], static_cast<Bits>(some[lane] & kMagnitude));
    }
  }
  some = {};
  std::memcpy(some.data(), data + i * sizeof(Bits), (count - i) * sizeof(Bits));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    most[lane] = std::max(most[lane], static_cast<Bits>(some[lane] & kMagnitude));
  }
  return *std::ranges::max_element(most);
}

float line_magnitude(const TensorView& view, uint64_t first, uint64_t count) {
  const auto* data = static_cast<const std::byte*>(view.data) + first * dtype_bits(view.dtype) / 8;
  if (view.dtype == DType::f32) return std::bit_cast<float>(largest_bits<int32_t>(data, count));
  const auto bits = static_cast<uint16_t>(largest_bits<int16_t>(data, count));
  return view.dtype == DType::f16 ? float_from_f16(bits) : float_from_bf16(bits);
}

}  // namespace

float largest_magnitude(const TensorView& view, Slice share) {
  const size_t along = view.stride[0] == 1 && view.shape[0] > 1 ? 0 : 1;
  const size_t across = 1 - along;
  const uint64_t last = view.shape[across] * (share.index + 1) / share.count;
  float most = 0;
  for (uint64_t line = view.shape[across] * share.index / share.count; line < last; ++line) {
    const float found = line_magnitude(view, line * view.stride[across], view.shape[along]);
    if (!(found <= most)) most = found;  // NaN too
    if (!std::isfinite(most)) return most;
  }
  return most;
}

}  // namespace tenon
