// Codes of a byte or a nibble a value, with scales of rows or of blocks of values.
#include <tenon/formats/levels.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/quantize/blocks/made_tensor.h"
#include "core/quantize/blocks/row_shares.h"

namespace tenon::quantize {
namespace {

constexpr uint64_t kLevelBlock = 64;
constexpr float kLargestE4M3 = 448.0f;

MadeTensor tensor_of(std::string name, DType dtype, std::vector<uint64_t> shape, const void* data,
                     size_t bytes) {
  MadeTensor out{std::move(name), dtype, std::move(shape), {}};
  const auto* from = static_cast<const std::byte*>(data);
  out.bytes.assign(from, from + bytes);
  return out;
}

uint32_t nearest_level(float value) {
  const auto* above = std::lower_bound(std::begin(kNf4Levels), std::end(kNf4Levels), value);
  if (above == std::begin(kNf4Levels)) return 0;
  if (above == std::end(kNf4Levels)) return 15;
  const bool lower = value - *(above - 1) <= *above - value;
  return static_cast<uint32_t>(above - std::begin(kNf4Levels)) - (lower ? 1 : 0);
}

// The nearest E4M3, ties to even, of |value| up to 448; and what it stands for.
uint8_t float8_code(float value, float& back) {
  const float size = std::min(std::fabs(value), kLargestE4M3);
  const int exponent = size == 0 ? -6 : std::max(-6, std::ilogb(size));
  const float step = std::ldexp(1.0f, exponent - 3);
  const float steps = std::nearbyint(size / step);  // 8 … 16, less where it is subnormal
  back = std::copysign(steps * step, value);
  const auto mantissa = static_cast<int>(steps);
  // A mantissa of 16 carries into the exponent by itself.
  const int code = mantissa < 8 ? mantissa : (exponent + 7) * 8 + mantissa - 8;
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

float largest_of(const float* values, uint64_t count) {
  float largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

}  // namespace

MadeTensors nf4_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                        WorkerPool& pool) {
  std::vector<uint8_t> codes(w.size() / 2);
  std::vector<float> scales((w.size() + kLevelBlock - 1) / kLevelBlock);
  for_each_row(pool, scales.size(), [&](uint64_t block) {
    const uint64_t begin = block * kLevelBlock;
    const uint64_t count = std::min<uint64_t>(kLevelBlock, w.size() - begin);
    const float largest = largest_of(&w[begin], count);
    scales[block] = largest;
    for (uint64_t i = begin; i < begin + count; ++i) {
      const uint32_t code = nearest_level(largest > 0 ? w[i] / largest : 0);
      w[i] = kNf4Levels[code] * largest;
      codes[i / 2] = static_cast<uint8_t>(codes[i / 2] | code << (i % 2 == 0 ? 4 : 0));
    }
  });
  const std::string state =
      R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [)" +
      std::to_string(n) + ", " + std::to_string(k) + "]}";
  return {tensor_of(stem + ".weight", DType::u8, {codes.size(), 1}, codes.data(), codes.size()),
          tensor_of(stem + ".weight.absmax", DType::f32, {scales.size()}, scales.data(),
                    scales.size() * sizeof(float)),
          tensor_of(stem + ".weight.quant_map", DType::f32, {16}, kNf4Levels, sizeof(kNf4Levels)),
          tensor_of(stem + ".weight.quant_state.bitsandbytes__nf4", DType::u8, {state.size()},
                    state.data(), state.size())};
}

MadeTensors int8_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                         WorkerPool& pool) {
  std::vector<int8_t> codes(w.size());
  std::vector<float> scales(n);
  for_each_row(pool, n, [&](uint64_t row) {
    const float scale = std::max(largest_of(&w[row * k], k) / 127.0f, 1e-30f);
    scales[row] = scale;
    for (uint64_t i = row * k; i < (row + 1) * k; ++i) {
      const float code = std::clamp(std::round(w[i] / scale), -127.0f, 127.0f);
      codes[i] = static_cast<int8_t>(code);
      w[i] = code * scale;
    }
  });
  return {tensor_of(stem + ".weight", DType::i8, {n, k}, codes.data(), codes.size()),
          tensor_of(stem + ".weight_scale", DType::f32, {n, 1}, scales.data(), 4 * n)};
}

MadeTensors float8_tensors(const std::string& stem, std::vector<float>& w, uint64_t n, uint64_t k,
                           WorkerPool& pool) {
  std::vector<uint8_t> codes(w.size());
  std::vector<float> scales(n);
  for_each_row(pool, n, [&](uint64_t row) {
    const float scale = std::max(largest_of(&w[row * k], k) / kLargestE4M3, 1e-30f);
    scales[row] = scale;
    for (uint64_t i = row * k; i < (row + 1) * k; ++i) {
      float back = 0;
      codes[i] = float8_code(w[i] / scale, back);
      w[i] = back * scale;
    }
  });
  return {tensor_of(stem + ".weight", DType::f8_e4m3, {n, k}, codes.data(), codes.size()),
          tensor_of(stem + ".weight_scale", DType::f32, {n, 1}, scales.data(), 4 * n)};
}

}  // namespace tenon::quantize
