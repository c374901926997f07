// Blocks whose codes stand for levels of a table.
#include <tenon/formats/levels.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/quantize/blocks/block_fit.h"
#include "core/quantize/blocks/blocks.h"

namespace tenon::quantize {
namespace {

constexpr uint32_t kGroups = 8;  // of 32 values in a block of iq4_xs
constexpr int kLowestScale = -32, kHighestScale = 31;

uint32_t nearest_of(std::span<const float> levels, float value) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < levels.size(); ++i) {
    if (std::fabs(levels[i] - value) < std::fabs(levels[best] - value)) best = i;
  }
  return best;
}

struct LevelSums {
  double xl = 0, ll = 0, error = 0;
};
LevelSums sums_of(std::span<const float> levels, const float* values, const float* importance,
                  float scale) {
  LevelSums sums;
  for (uint32_t i = 0; i < kNibbleBlock; ++i) {
    const double level = levels[nearest_of(levels, scale == 0 ? 0.0f : values[i] / scale)];
    sums.xl += importance[i] * values[i] * level;
    sums.ll += importance[i] * level * level;
    sums.error += importance[i] * (values[i] - scale * level) * (values[i] - scale * level);
  }
  return sums;
}

void put_codes(std::span<const float> levels, const float* values, float scale, std::byte* to) {
  std::array<int, kNibbleBlock> codes{};
  for (uint32_t i = 0; i < kNibbleBlock; ++i) {
    codes[i] = static_cast<int>(nearest_of(levels, scale == 0 ? 0.0f : values[i] / scale));
  }
  put_nibbles(codes, to);
}

float largest_value(const float* values) {
  return *std::max_element(values, values + kNibbleBlock,
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

// The scale of 32 values with which the levels lose least; may be negative.
float fit_levels(const float* values, const float* importance) {
  const float largest = largest_value(values);
  float best = 0;
  double most = 0;
  for (int step = -12; step <= 12 && largest != 0; ++step) {
    for (const float end : {-127.0f, 113.0f}) {
      const LevelSums sums = sums_of(kIq4Levels, values, importance,
                                     largest / (end + 1.5f * static_cast<float>(step)));
      if (sums.ll > 0 && sums.xl * sums.xl / sums.ll > most) {
        most = sums.xl * sums.xl / sums.ll;
        best = static_cast<float>(sums.xl / sums.ll);
      }
    }
  }
  return best;
}

// Of the small integers near the one wanted, that which loses least.
int choose_scale(const float* values, const float* importance, float d, float wanted) {
  const int near = code_of(wanted, d, kLowestScale, kHighestScale);
  int best = near;
  double least = INFINITY;
  for (int s = std::max(kLowestScale, near - 1); s <= std::min(kHighestScale, near + 1); ++s) {
    const double error = sums_of(kIq4Levels, values, importance, d * static_cast<float>(s)).error;
    if (error >= least) continue;
    least = error;
    best = s;
  }
  return best;
}

}  // namespace

void encode_iq4_nl(const float* values, const float* importance, std::byte* block) {
  const float scale = put_half(fit_levels(values, importance), block);
  put_codes(kIq4Levels, values, scale, block + 2);
}

// d, 16 bits with the two high bits of each scale, 4 bytes with their nibbles, nibbles of codes.
void encode_iq4_xs(const float* values, const float* importance, std::byte* block) {
  std::array<float, kGroups> wanted{};
  float largest = 0;
  for (uint32_t g = 0; g < kGroups; ++g) {
    wanted[g] = fit_levels(values + g * kNibbleBlock, importance + g * kNibbleBlock);
    if (std::fabs(wanted[g]) > std::fabs(largest)) largest = wanted[g];
  }
  const float d = put_half(largest / static_cast<float>(kLowestScale), block);
  uint16_t high = 0;
  std::memset(block + 4, 0, 4);
  for (uint32_t g = 0; g < kGroups; ++g) {
    const float* own = values + g * kNibbleBlock;
    const int scale = choose_scale(own, importance + g * kNibbleBlock, d, wanted[g]);
    const auto stored = static_cast<uint32_t>(scale - kLowestScale);
    high = static_cast<uint16_t>(high | stored >> 4 << (2 * g));
    block[4 + g / 2] |= static_cast<std::byte>((stored & 15) << (g % 2 * 4));
    put_codes(kIq4Levels, own, d * static_cast<float>(scale), block + 8 + g * 16);
  }
  std::memcpy(block + 2, &high, sizeof(high));
}

void encode_mxfp4(const float* values, const float* importance, std::byte* block) {
  const float largest = std::fabs(largest_value(values));
  // The power of two for which the largest value is at most 6, and the one below it.
  const int top = largest > 0 ? std::ilogb(largest) - 1 : -126;
  int best = top;
  double least = INFINITY;
  for (int exponent = std::max(top - 2, -126); exponent <= top + 1; ++exponent) {
    const double error = sums_of(kE2M1Levels, values, importance, std::ldexp(0.5f, exponent)).error;
    if (error < least) {
      least = error;
      best = exponent;
    }
  }
  best = std::clamp(best, -126, 127);
  block[0] = static_cast<std::byte>(best + 127);
  put_codes(kE2M1Levels, values, std::ldexp(0.5f, best), block + 1);
}

}  // namespace tenon::quantize
