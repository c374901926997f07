// Blocks of 256 values in groups whose scales are small integers times a scale of the block.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/quantize/blocks/block_fit.h"
#include "core/quantize/blocks/blocks.h"

namespace tenon::quantize {
namespace {

constexpr uint32_t kSuperValues = 256;

void or_into(std::byte& to, uint32_t bits) {
  to |= static_cast<std::byte>(bits);
}

// Groups with a scale and a minimum each: value = d · scale · code - dmin · minimum.
template <uint32_t group_values, int most_code, int most_scale>
struct WithMinima {
  static constexpr uint32_t kGroups = kSuperValues / group_values;
  std::array<int, kGroups> scales{}, minima{};
  std::array<int, kSuperValues> codes{};

  // d and dmin are stored at these places.
  void fit(const float* values, const float* importance, std::byte* d_at, std::byte* dmin_at) {
    std::array<ScaleAndMinimum, kGroups> groups;
    float largest_scale = 0, largest_minimum = 0;
    for (uint32_t g = 0; g < kGroups; ++g) {
      groups[g] = fit_scale_and_minimum({values + g * group_values, group_values},
                                        {importance + g * group_values, group_values}, most_code);
      largest_scale = std::max(largest_scale, groups[g].scale);
      largest_minimum = std::max(largest_minimum, groups[g].minimum);
    }
    const float d = put_half(largest_scale / most_scale, d_at);
    const float dmin = put_half(largest_minimum / most_scale, dmin_at);
    for (uint32_t g = 0; g < kGroups; ++g) {
      choose(values + g * group_values, importance + g * group_values, g, d, dmin, groups[g]);
    }
  }

 private:
  // The small integers near the ones wanted that lose least.
  void choose(const float* values, const float* importance, uint32_t g, float d, float dmin,
              const ScaleAndMinimum& wanted) {
    const int scale = code_of(wanted.scale, d, 0, most_scale);
    const int minimum = code_of(wanted.minimum, dmin, 0, most_scale);
    double least = INFINITY;
    for (int s = std::max(0, scale - 1); s <= std::min(most_scale, scale + 1); ++s) {
      for (int m = std::max(0, minimum - 1); m <= std::min(most_scale, minimum + 1); ++m) {
        std::array<int, group_values> found;
        double error = 0;
        const float step = d * static_cast<float>(s), low = dmin * static_cast<float>(m);
        codes_of({values, group_values}, low, step, 0, most_code, found);
        for (uint32_t i = 0; i < group_values; ++i) {
          const double apart = step * static_cast<float>(found[i]) - low - values[i];
          error += importance[i] * apart * apart;
        }
        if (error >= least) continue;
        least = error;
        scales[g] = s;
        minima[g] = m;
        std::ranges::copy(found, codes.begin() + g * group_values);
      }
    }
  }
};

// Groups of 16 with a signed scale each: value = d · scale · code.
template <int low_code, int high_code, int low_scale, int high_scale>
struct WithSigns {
  static constexpr uint32_t kGroupValues = 16, kGroups = kSuperValues / kGroupValues;
  std::array<int, kGroups> scales{};
  std::array<int, kSuperValues> codes{};

  void fit(const float* values, const float* importance, std::byte* d_at) {
    std::array<float, kGroups> wanted{};
    float largest = 0;
    for (uint32_t g = 0; g < kGroups; ++g) {
      wanted[g] = fit_scale({values + g * kGroupValues, kGroupValues},
                            {importance + g * kGroupValues, kGroupValues}, low_code, high_code);
      if (std::fabs(wanted[g]) > std::fabs(largest)) largest = wanted[g];
    }
    const float d = put_half(largest / static_cast<float>(low_scale), d_at);
    for (uint32_t g = 0; g < kGroups; ++g) {
      choose(values + g * kGroupValues, importance + g * kGroupValues, g, d, wanted[g]);
    }
  }

 private:
  void choose(const float* values, const float* importance, uint32_t g, float d, float wanted) {
    const int scale = code_of(wanted, d, low_scale, high_scale);
    double least = INFINITY;
    for (int s = std::max(low_scale, scale - 1); s <= std::min(high_scale, scale + 1); ++s) {
      std::array<int, kGroupValues> found;
      double error = 0;
      const float step = d * static_cast<float>(s);
      codes_of({values, kGroupValues}, 0, step, low_code, high_code, found);
      for (uint32_t i = 0; i < kGroupValues; ++i) {
        const double apart = step * static_cast<float>(found[i]) - values[i];
        error += importance[i] * apart * apart;
      }
      if (error >= least) continue;
      least = error;
      scales[g] = s;
      std::ranges::copy(found, codes.begin() + g * kGroupValues);
    }
  }
};

// Six bits each of eight scales and eight minima in 12 bytes: the first four of both are the low
// bits of bytes 0-3 and 4-7; the others have four bits in bytes 8-11 and two on top of the first.
void put_scales_and_minima(const std::array<int, 8>& scales, const std::array<int, 8>& minima,
                           std::byte* to) {
  for (uint32_t g = 0; g < 8; ++g) {
    const auto scale = static_cast<uint32_t>(scales[g]), minimum = static_cast<uint32_t>(minima[g]);
    if (g < 4) {
      or_into(to[g], scale);
      or_into(to[g + 4], minimum);
    } else {
      or_into(to[g + 4], (scale & 15) | (minimum & 15) << 4);
      or_into(to[g - 4], scale >> 4 << 6);
      or_into(to[g], minimum >> 4 << 6);
    }
  }
}

template <int most>
void encode_fine_minima(const float* values, const float* importance, std::byte* block) {
  std::memset(block, 0, most == 31 ? 176 : 144);
  WithMinima<32, most, 63> fitted;
  fitted.fit(values, importance, block, block + 2);
  put_scales_and_minima(fitted.scales, fitted.minima, block + 4);
  std::byte* nibbles = block + (most == 31 ? 48 : 16);
  for (uint32_t i = 0; i < kSuperValues; ++i) {
    const auto code = static_cast<uint32_t>(fitted.codes[i]);
    const uint32_t group = i / 32, at = i % 32;
    or_into(nibbles[group / 2 * 32 + at], (code & 15) << (group % 2 * 4));
    if (most == 31) or_into(block[16 + at], code >> 4 << group);
  }
}

}  // namespace

void encode_q4_k(const float* values, const float* importance, std::byte* block) {
  encode_fine_minima<15>(values, importance, block);
}
void encode_q5_k(const float* values, const float* importance, std::byte* block) {
  encode_fine_minima<31>(values, importance, block);
}

// 16 bytes of scales and minima in nibbles, 64 bytes of codes, d, dmin.
void encode_q2_k(const float* values, const float* importance, std::byte* block) {
  std::memset(block, 0, 84);
  WithMinima<16, 3, 15> fitted;
  fitted.fit(values, importance, block + 80, block + 82);
  for (uint32_t g = 0; g < 16; ++g) {
    block[g] = static_cast<std::byte>(fitted.scales[g] | fitted.minima[g] << 4);
  }
  for (uint32_t i = 0; i < kSuperValues; ++i) {
    const uint32_t half = i / 128, within = i % 128;
    or_into(block[16 + half * 32 + within % 32], static_cast<uint32_t>(fitted.codes[i])
                                                     << (within / 32 * 2));
  }
}

// 32 bytes of third bits, 64 of the two low ones, 12 of scales, d. Codes plus 4, scales plus 32.
void encode_q3_k(const float* values, const float* importance, std::byte* block) {
  std::memset(block, 0, 110);
  WithSigns<-4, 3, -32, 31> fitted;
  fitted.fit(values, importance, block + 108);
  for (uint32_t g = 0; g < 16; ++g) {
    const auto scale = static_cast<uint32_t>(fitted.scales[g] + 32);
    or_into(block[96 + g % 8], (scale & 15) << (g / 8 * 4));
    or_into(block[104 + g % 4], scale >> 4 << (g / 4 * 2));
  }
  for (uint32_t i = 0; i < kSuperValues; ++i) {
    const auto code = static_cast<uint32_t>(fitted.codes[i] + 4);
    const uint32_t half = i / 128, within = i % 128;
    or_into(block[32 + half * 32 + within % 32], (code & 3) << (within / 32 * 2));
    or_into(block[within % 32], code >> 2 << (half * 4 + within / 32));
  }
}

// 128 bytes of nibbles, 64 of two high bits each, 16 signed scales, d. Codes plus 32.
void encode_q6_k(const float* values, const float* importance, std::byte* block) {
  std::memset(block, 0, 210);
  WithSigns<-32, 31, -128, 127> fitted;
  fitted.fit(values, importance, block + 208);
  for (uint32_t g = 0; g < 16; ++g) {
    block[192 + g] = static_cast<std::byte>(static_cast<int8_t>(fitted.scales[g]));
  }
  for (uint32_t i = 0; i < kSuperValues; ++i) {
    const auto code = static_cast<uint32_t>(fitted.codes[i] + 32);
    const uint32_t half = i / 128, within = i % 128;
    or_into(block[half * 64 + within % 64], (code & 15) << (within / 64 * 4));
    or_into(block[128 + half * 32 + within % 32], code >> 4 << (within / 32 * 2));
  }
}

}  // namespace tenon::quantize
