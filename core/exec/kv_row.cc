#include "core/exec/kv_row.h"

#include <tenon/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/base/half.h"

namespace tenon {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float to_bf16(float value) {
  return float_from_bf16(bf16_from_float(value));
}
// The largest bf16 not above `value`.
float bf16_below(float value) {
  const float near = to_bf16(value);
  if (!(near > value)) return near;
  return float_from_bf16(static_cast<uint16_t>(bf16_from_float(near) + (near > 0 ? -1 : 1)));
}

// What stands behind a row of quantised elements.
struct Scale {
  float scale;
  float least;
};
Scale choose_scale(DType dtype, std::span<const float> row) {
  const bool finite = std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
  if (!finite || row.empty()) return {kNaN, 0};
  const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
  Scale made{};
  if (dtype == DType::i8) {
    made.scale = to_bf16(std::max(-*lowest, *highest) / 127.0f);
  } else {
    made.least = bf16_below(*lowest);
    made.scale = to_bf16((*highest - made.least) / 15.0f);
  }
  return std::isfinite(made.scale) && std::isfinite(made.least) ? made : Scale{kNaN, 0};
}

uint8_t quantised(float x, const Scale& scale, float lowest, float highest) {
  if (!(scale.scale > 0)) return 0;
  const float whole = std::nearbyint((x - scale.least) / scale.scale);
  return static_cast<uint8_t>(static_cast<int>(std::clamp(whole, lowest, highest)));
}

void put(float value, std::byte* to) {
  const uint16_t bits = bf16_from_float(value);
  std::memcpy(to, &bits, sizeof(bits));
}
float get(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return float_from_bf16(bits);
}

void write_quantised(DType dtype, std::span<const float> row, std::byte* to) {
  const auto dim = static_cast<uint32_t>(row.size());
  const uint64_t bytes = kv_element_bytes(dtype, dim);
  const Scale scale = choose_scale(dtype, row);
  std::memset(to, 0, bytes);
  for (uint32_t d = 0; d < dim; ++d) {
    if (dtype == DType::i8) {
      to[d] = std::byte{quantised(row[d], scale, -127, 127)};
    } else {
      to[d / 2] |= std::byte{quantised(row[d], scale, 0, 15)} << (d % 2 * 4);
    }
  }
  put(scale.scale, to + bytes);
  if (dtype == DType::i4) put(scale.least, to + bytes + 2);
}

void read_quantised(DType dtype, const std::byte* from, std::span<float> row) {
  const uint64_t bytes = kv_element_bytes(dtype, static_cast<uint32_t>(row.size()));
  const float scale = get(from + bytes);
  const float least = dtype == DType::i4 ? get(from + bytes + 2) : 0;
  for (size_t d = 0; d < row.size(); ++d) {
    const int element = dtype == DType::i8
                            ? static_cast<int8_t>(from[d])
                            : static_cast<int>(from[d / 2] >> (d % 2 * 4) & std::byte{15});
    row[d] = static_cast<float>(element) * scale + least;
  }
}

}  // namespace

void write_kv_row(DType dtype, std::span<const float> row, std::byte* to) {
  if (kv_is_quantised(dtype)) return write_quantised(dtype, row, to);
  if (dtype == DType::f32) {
    std::memcpy(to, row.data(), row.size_bytes());
    return;
  }
  for (size_t d = 0; d < row.size(); ++d) {
    const uint16_t bits = dtype == DType::f16 ? f16_from_float(row[d]) : bf16_from_float(row[d]);
    std::memcpy(to + d * sizeof(bits), &bits, sizeof(bits));
  }
}

void read_kv_row(DType dtype, const std::byte* from, std::span<float> row) {
  if (kv_is_quantised(dtype)) return read_quantised(dtype, from, row);
  if (dtype == DType::f32) {
    std::memcpy(row.data(), from, row.size_bytes());
    return;
  }
  for (size_t d = 0; d < row.size(); ++d) {
    uint16_t bits;
    std::memcpy(&bits, from + d * sizeof(bits), sizeof(bits));
    row[d] = dtype == DType::f16 ? float_from_f16(bits) : float_from_bf16(bits);
  }
}

}  // namespace tenon
