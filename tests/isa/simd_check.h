// Every function of simd.h against its definition, lane by lane, in the set that this is compiled
// for. Where sets promise the same bits, the bits are compared.
#pragma once

#include <tenon/sdk/half.h>
#include <tenon/sdk/simd.h>

#include <cmath>
#include <limits>

#include "tests/isa/checks.h"

namespace tenon::checks {
namespace {

namespace simd = sdk::simd;
using simd::F32;
constexpr uint32_t kLanes = simd::kLanes;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Lanes {
  float at[16] = {};
  float operator[](uint32_t i) const { return at[i]; }
};
Lanes lanes_of(F32 value) {
  Lanes out;
  simd::store(out.at, value);
  return out;
}
F32 vector_of(const Lanes& lanes) {
  return simd::load(lanes.at);
}

// Numbers that take every path: ordinary ones, zeros of both signs, large and small, none.
Lanes mixed(Numbers& numbers) {
  constexpr float kSpecial[] = {0.0f, -0.0f, kInf, -kInf, kNan, 1e-38f, -3e38f, 0.5f, 1.5f, -2.5f};
  Lanes out;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t kind = numbers.next() % 20;
    out.at[i] = kind < 10 ? kSpecial[kind] : numbers.unit() * 100;
  }
  return out;
}
Lanes ordinary(Numbers& numbers, float scale) {
  Lanes out;
  for (uint32_t i = 0; i < kLanes; ++i) out.at[i] = numbers.unit() * scale;
  return out;
}

template <typename Function, typename Expected>
void each_lane(const char* what, F32 got, const Expected& expected, Function same_as) {
  const Lanes lanes = lanes_of(got);
  for (uint32_t i = 0; i < kLanes; ++i) {
    check(same_as(lanes[i], expected(i)), what, static_cast<long>(i), 0);
  }
}
template <typename Expected>
void equal(const char* what, F32 got, const Expected& expected) {
  each_lane(what, got, expected, [](float a, float b) { return same(a, b); });
}
template <typename Expected>
void near(const char* what, F32 got, const Expected& expected, double most) {
  each_lane(what, got, expected, [&](float a, double b) {
    return a == b || std::fabs(a - b) <= most * std::fabs(b) + 1e-37;
  });
}

void arithmetic(Numbers& numbers) {
  const Lanes a = mixed(numbers), b = mixed(numbers), c = mixed(numbers);
  const F32 x = vector_of(a), y = vector_of(b), z = vector_of(c);
  equal("add", simd::add(x, y), [&](uint32_t i) { return a[i] + b[i]; });
  equal("sub", simd::sub(x, y), [&](uint32_t i) { return a[i] - b[i]; });
  equal("mul", simd::mul(x, y), [&](uint32_t i) { return a[i] * b[i]; });
  equal("div", simd::div(x, y), [&](uint32_t i) { return a[i] / b[i]; });
  const bool rounds_twice = std::strcmp(TENON_TEXT(TENON_SIMD_SET), "portable") == 0;
  equal("fma", simd::fma(x, y, z), [&](uint32_t i) {
    const float product = a[i] * b[i];
    return rounds_twice ? product + c[i] : std::fma(a[i], b[i], c[i]);
  });
  equal("min", simd::min(x, y), [&](uint32_t i) { return a[i] < b[i] ? a[i] : b[i]; });
  equal("max", simd::max(x, y), [&](uint32_t i) { return a[i] > b[i] ? a[i] : b[i]; });
  equal("select", simd::select(simd::less(x, y), x, z),
        [&](uint32_t i) { return a[i] < b[i] ? a[i] : c[i]; });
  bool some = false;
  for (uint32_t i = 0; i < kLanes; ++i) some |= a[i] < b[i];
  check(simd::any(simd::less(x, y)) == some, "any");
  check(!simd::any(simd::less(x, x)), "any of none");
}

void reductions(Numbers& numbers) {
  const Lanes a = ordinary(numbers, 3);
  float sums[16], tops[16];
  std::memcpy(sums, a.at, sizeof(sums));
  std::memcpy(tops, a.at, sizeof(tops));
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
      tops[i] = tops[i] > tops[i + half] ? tops[i] : tops[i + half];
    }
  }
  check(same(simd::reduce_add(vector_of(a)), sums[0]), "reduce_add");
  check(same(simd::reduce_max(vector_of(a)), tops[0]), "reduce_max");
  check(same(simd::first(vector_of(a)), a[0]), "first");
  equal("round", simd::round(vector_of(a)), [&](uint32_t i) {
    const float whole = std::nearbyint(a[i]);
    return whole == 0 ? lanes_of(simd::round(vector_of(a)))[i] * 0 : whole;  // either zero
  });
}

void exponents(Numbers& numbers) {
  const Lanes a = ordinary(numbers, 80);
  near(
      "exp", simd::exp(vector_of(a)), [&](uint32_t i) { return std::exp(double{a[i]}); }, 4e-7);
  near(
      "tanh", simd::tanh(vector_of(a)), [&](uint32_t i) { return std::tanh(double{a[i]}); }, 5e-7);
  near(
      "silu", simd::silu(vector_of(a)),
      [&](uint32_t i) { return a[i] / (1 + std::exp(-double{a[i]})); }, 1e-6);
  const Lanes below = lanes_of(simd::sub(simd::zero(), simd::max(vector_of(a), simd::zero())));
  near(
      "exp2_nonpositive", simd::exp2_nonpositive(vector_of(below)),
      [&](uint32_t i) { return std::exp2(double{below[i]}); }, 3e-7);
  Lanes powers;
  for (uint32_t i = 0; i < kLanes; ++i) {
    powers.at[i] = static_cast<float>(static_cast<int>(numbers.next() % 240) - 120);
  }
  equal("scale_exponent", simd::scale_exponent(simd::set1(1.5f), vector_of(powers)),
        [&](uint32_t i) { return std::ldexp(1.5f, static_cast<int>(powers[i])); });
  check(same(simd::first(simd::exp(simd::set1(100))), kInf), "exp of much");
  check(same(simd::first(simd::exp(simd::set1(-100))), 0), "exp of little");
  check(same(simd::first(simd::exp(simd::set1(kNan))), kNan), "exp of no number");
}

void memory(Numbers& numbers) {
  float from[17], to[17];
  for (float& value : from) value = numbers.unit();
  for (uint32_t count = 0; count <= kLanes; ++count) {
    equal("load_first", simd::load_first(from, count),
          [&](uint32_t i) { return i < count ? from[i] : 0.0f; });
    std::memset(to, 0xff, sizeof(to));
    simd::store_first(to, simd::load(from), count);
    for (uint32_t i = 0; i < 17; ++i) {
      check(i < count ? same(to[i], from[i]) : bits_of(to[i]) == ~0u, "store_first", count, i);
    }
  }
  equal("load_halves", simd::load_halves(from + 1, from),
        [&](uint32_t i) { return i < kLanes / 2 ? from[i + 1] : from[i - kLanes / 2]; });
  equal("lane_numbers", simd::lane_numbers(), [](uint32_t i) { return static_cast<float>(i); });
  F32 front, back;
  simd::interleave(simd::load(from), simd::set1(7), front, back);
  equal("interleave", front, [&](uint32_t i) { return i % 2 == 0 ? from[i / 2] : 7.0f; });
  equal("interleave", back, [&](uint32_t i) { return i % 2 == 0 ? from[(kLanes + i) / 2] : 7.0f; });
  F32 rows[kLanes];
  for (uint32_t r = 0; r < kLanes; ++r) {
    rows[r] = simd::add(simd::lane_numbers(), simd::set1(static_cast<float>(100 * r)));
  }
  simd::transpose(rows);
  for (uint32_t r = 0; r < kLanes; ++r) {
    equal("transpose", rows[r], [&](uint32_t i) { return static_cast<float>(100 * i + r); });
  }
}

// All 16-bit patterns, and values that are rounded to them.
void halves(Numbers& numbers) {
  uint16_t from[16], to[16];
  for (uint32_t pattern = 0; pattern < 65536; pattern += kLanes) {
    for (uint32_t i = 0; i < kLanes; ++i) from[i] = static_cast<uint16_t>(pattern + i);
    equal("load_f16", simd::load_f16(from), [&](uint32_t i) { return sdk::f16_to_float(from[i]); });
    equal("load_bf16", simd::load_bf16(from),
          [&](uint32_t i) { return float_of(uint32_t{from[i]} << 16); });
  }
  for (int round = 0; round < 2000; ++round) {
    const Lanes a = round % 2 == 0 ? mixed(numbers) : ordinary(numbers, 70000);
    simd::store_f16(to, vector_of(a));
    for (uint32_t i = 0; i < kLanes; ++i) {
      check(a[i] != a[i] || to[i] == sdk::float_to_f16(a[i]), "store_f16", i, to[i]);
    }
    simd::store_bf16(to, vector_of(a));
    for (uint32_t i = 0; i < kLanes; ++i) {
      check(to[i] == sdk::float_to_bf16(a[i]), "store_bf16", i, to[i]);
    }
  }
}

void bytes(Numbers& numbers) {
  uint8_t from[64];
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(numbers.next() >> 9);
  const auto word = [&](uint32_t i) {
    uint32_t value;
    std::memcpy(&value, from + 4 * i, 4);
    return value;
  };
  equal("load_i8", simd::load_i8(from),
        [&](uint32_t i) { return static_cast<float>(static_cast<int8_t>(from[i])); });
  equal("load_u8_words", simd::load_u8_words(from),
        [&](uint32_t i) { return float_of(uint32_t{from[i]}); });
  const F32 words = simd::load(from);
  equal("signed_byte", simd::signed_byte<0>(words),
        [&](uint32_t i) { return static_cast<float>(static_cast<int8_t>(word(i))); });
  equal("signed_byte", simd::signed_byte<3>(words),
        [&](uint32_t i) { return static_cast<float>(static_cast<int8_t>(word(i) >> 24)); });
  equal("nibble", simd::nibble<0>(words),
        [&](uint32_t i) { return static_cast<float>(word(i) & 15); });
  equal("nibble", simd::nibble<7>(words),
        [&](uint32_t i) { return static_cast<float>(word(i) >> 28); });
  equal("widen_low", simd::widen_low(words), [&](uint32_t i) { return float_of(word(i) << 16); });
  equal("widen_high", simd::widen_high(words),
        [&](uint32_t i) { return float_of(word(i) & 0xffff0000u); });
  F32 even, odd;
  simd::load_nibbles(from, even, odd);
  equal("load_nibbles", even, [&](uint32_t i) { return static_cast<float>(from[i] & 15); });
  equal("load_nibbles", odd, [&](uint32_t i) { return static_cast<float>(from[i] >> 4); });
}

void check_simd() {
  Numbers numbers;
  for (int round = 0; round < 500; ++round) {
    arithmetic(numbers);
    reductions(numbers);
    exponents(numbers);
    memory(numbers);
    bytes(numbers);
  }
  halves(numbers);
}

}  // namespace
}  // namespace tenon::checks
