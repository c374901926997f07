// Scales of a few values that lose least: what all block formats of GGUF files begin with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::quantize {

// value ≈ scale · code, low <= code <= high; the sum of importance · error² is the least that a
// search around the largest value finds. A scale of 0 for values of 0. May be negative.
float fit_scale(std::span<const float> values, std::span<const float> importance, int low,
                int high);

// value ≈ scale · code - minimum, 0 <= code <= most; both are at least 0.
struct ScaleAndMinimum {
  float scale = 0;
  float minimum = 0;
};
ScaleAndMinimum fit_scale_and_minimum(std::span<const float> values,
                                      std::span<const float> importance, int most);

// Stores a scale as f16; what readers will make of it.
float put_half(float value, std::byte* to);

// The nearest code.
int code_of(float value, float scale, int low, int high);
// Those of value + shift, many at a time.
void codes_of(std::span<const float> values, float shift, float scale, int low, int high,
              std::span<int> codes);

// Value i of 32 in the low nibble of byte i, value i + 16 in the high one.
inline constexpr uint32_t kNibbleBlock = 32;
void put_nibbles(std::span<const int, kNibbleBlock> codes, std::byte* to);

}  // namespace tenon::quantize
