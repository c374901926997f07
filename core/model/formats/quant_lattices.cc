// Blocks of 256 values that are points of a lattice: of three levels, eight values a point, or of
// eight levels, four values a point. Signs stand apart, but for iq1, whose levels are -1, 0 and 1.
#include <tenon/formats/lattices.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

uint32_t octet(const std::byte* bytes, uint32_t index) {
  return std::to_integer<uint32_t>(bytes[index]);
}
uint32_t word16(const std::byte* bytes, uint32_t index) {
  return octet(bytes, 2 * index) | octet(bytes, 2 * index + 1) << 8;
}
uint32_t word32(const std::byte* bytes) {
  return word16(bytes, 0) | word16(bytes, 1) << 16;
}
float scale_at(const std::byte* block) {
  return float_from_f16(static_cast<uint16_t>(word16(block, 0)));
}
// n of a scale that is a number of halves: n + 1/2.
float with_half(uint32_t n) {
  return static_cast<float>(n) + 0.5f;
}

// Points as numbers, a digit a value (tools/generate_lattices.py).
template <uint32_t kCount>
constexpr std::array<uint16_t, kCount> numbers_of(const char* steps) {
  std::array<uint16_t, kCount> numbers{};
  uint32_t number = 0, count = 0;
  for (; count < kCount; ++steps) {
    const bool more = *steps == '~';
    number += more ? 91 : static_cast<uint32_t>(*steps) - '#';
    if (!more) numbers[count++] = static_cast<uint16_t>(number);
  }
  return numbers;
}
constexpr auto kIq2XxsPoints = numbers_of<256>(kIq2XxsSteps);
constexpr auto kIq2XsPoints = numbers_of<512>(kIq2XsSteps);
constexpr auto kIq2SPoints = numbers_of<1024>(kIq2SSteps);
constexpr auto kIq3XxsPoints = numbers_of<256>(kIq3XxsSteps);
constexpr auto kIq3SPoints = numbers_of<512>(kIq3SSteps);
constexpr auto kIq1Points = numbers_of<2048>(kIq1Steps);

constexpr float kIq2Magnitudes[] = {8, 25, 43};
constexpr float kIq3XxsMagnitudes[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr float kIq3SMagnitudes[] = {1, 3, 5, 7, 9, 11, 13, 15};

// The values of a point, negative where a bit of `minus` is set.
template <size_t kLevels>
void write_point(uint32_t point, uint32_t values, const float (&levels)[kLevels], uint32_t minus,
                 float scale, float* out) {
  for (uint32_t i = 0; i < values; ++i, point /= kLevels) {
    const float value = scale * levels[point % kLevels];
    out[i] = (minus >> i & 1) != 0 ? -value : value;
  }
}

// Seven signs; the eighth makes the number of minus signs even.
uint32_t eight_signs(uint32_t seven) {
  return std::popcount(seven) % 2 == 0 ? seven : seven | 128;
}

// -1, 0 and 1, each with an eighth more or less.
void write_shifted(uint32_t point, bool less, float scale, float* out) {
  for (uint32_t i = 0; i < 8; ++i, point /= 3) {
    const float whole = static_cast<float>(point % 3) - 1.0f;
    out[i] = scale * (whole + (less ? -0.125f : 0.125f));
  }
}

}  // namespace

void dequantize_iq2_xxs(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t group = 0; group < 8; ++group) {
    const std::byte* indices = block + 2 + 8 * group;
    const uint32_t rest = word32(indices + 4);
    const float scale = d * with_half(rest >> 28) * 0.25f;
    for (uint32_t j = 0; j < 4; ++j, out += 8) {
      write_point(kIq2XxsPoints[octet(indices, j)], 8, kIq2Magnitudes,
                  eight_signs(rest >> (7 * j) & 127), scale, out);
    }
  }
}

void dequantize_iq2_xs(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t eight = 0; eight < 32; ++eight, out += 8) {
    const uint32_t word = word16(block + 2, eight);
    const uint32_t small = octet(block, 66 + eight / 4) >> (eight / 2 % 2 * 4) & 15;
    write_point(kIq2XsPoints[word % 512], 8, kIq2Magnitudes, eight_signs(word / 512),
                d * with_half(small) * 0.25f, out);
  }
}

void dequantize_iq2_s(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t eight = 0; eight < 32; ++eight, out += 8) {
    const uint32_t top = octet(block, 66 + eight / 4) >> (eight % 4 * 2) & 3;
    const uint32_t small = octet(block, 74 + eight / 4) >> (eight / 2 % 2 * 4) & 15;
    write_point(kIq2SPoints[octet(block, 2 + eight) + 256 * top], 8, kIq2Magnitudes,
                octet(block, 34 + eight), d * with_half(small) * 0.25f, out);
  }
}

void dequantize_iq3_xxs(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t four = 0; four < 64; ++four, out += 4) {
    const uint32_t rest = word32(block + 66 + four / 8 * 4);
    const uint32_t signs = eight_signs(rest >> (four / 2 % 4 * 7) & 127);
    write_point(kIq3XxsPoints[octet(block, 2 + four)], 4, kIq3XxsMagnitudes,
                four % 2 == 0 ? signs : signs >> 4, d * with_half(rest >> 28) * 0.5f, out);
  }
}

void dequantize_iq3_s(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t four = 0; four < 64; ++four, out += 4) {
    const uint32_t ninth = octet(block, 66 + four / 8) >> (four % 8) & 1;
    const uint32_t signs = octet(block, 74 + four / 2) >> (four % 2 * 4);
    const uint32_t small = octet(block, 106 + four / 16) >> (four / 8 % 2 * 4) & 15;
    write_point(kIq3SPoints[octet(block, 2 + four) + 256 * ninth], 4, kIq3SMagnitudes, signs,
                d * static_cast<float>(2 * small + 1), out);
  }
}

void dequantize_iq1_s(const std::byte* block, float* out) {
  const float d = scale_at(block);
  for (uint32_t eight = 0; eight < 32; ++eight, out += 8) {
    const uint32_t word = word16(block + 34, eight / 4);
    const uint32_t top = word >> (eight % 4 * 3) & 7;
    write_shifted(kIq1Points[octet(block, 2 + eight) + 256 * top], word >= 0x8000,
                  d * static_cast<float>(2 * (word >> 12 & 7) + 1), out);
  }
}

// Scales of three bits are four to a word; the words' top nibbles are the block's scale.
void dequantize_iq1_m(const std::byte* block, float* out) {
  const std::byte* scales = block + 48;
  uint32_t bits = 0;
  for (uint32_t i = 4; i-- > 0;) bits = bits << 4 | word16(scales, i) >> 12;
  const float d = float_from_f16(static_cast<uint16_t>(bits));
  for (uint32_t eight = 0; eight < 32; ++eight, out += 8) {
    const uint32_t nibble = octet(block, 32 + eight / 2) >> (eight % 2 * 4) & 15;
    const uint32_t half = eight / 2;
    const uint32_t small = word16(scales, half / 4) >> (half % 4 * 3) & 7;
    write_shifted(kIq1Points[octet(block, eight) + 256 * (nibble & 7)], nibble >= 8,
                  d * static_cast<float>(2 * small + 1), out);
  }
}

}  // namespace tenon
