#include "core/quantize/blocks/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"
#include "core/quantize/blocks/block_fit.h"

namespace tenon::quantize {
namespace {

constexpr uint32_t kBlockValues = kNibbleBlock;

void put_fifth_bits(const std::array<int, kBlockValues>& codes, std::byte* to) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kBlockValues; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(to, &bits, 4);
}

// d, then codes plus `offset`.
void encode_offset(const float* values, const float* importance, int offset, std::byte* block) {
  const float scale = put_half(
      fit_scale({values, kBlockValues}, {importance, kBlockValues}, -offset, offset - 1), block);
  std::array<int, kBlockValues> codes{};
  for (uint32_t i = 0; i < kBlockValues; ++i) {
    codes[i] = code_of(values[i], scale, -offset, offset - 1) + offset;
  }
  if (offset == 16) put_fifth_bits(codes, block + 2);
  put_nibbles(codes, block + (offset == 16 ? 6 : 2));
}
void encode_q4_0(const float* values, const float* importance, std::byte* block) {
  encode_offset(values, importance, 8, block);
}
void encode_q5_0(const float* values, const float* importance, std::byte* block) {
  encode_offset(values, importance, 16, block);
}

// d and m, then codes.
void encode_minimum(const float* values, const float* importance, int most, std::byte* block) {
  float low = *std::min_element(values, values + kBlockValues);
  // A minimum above 0 is taken off first: the fit keeps it at 0.
  std::array<float, kBlockValues> shifted{};
  const float shift = std::max(0.0f, low);
  for (uint32_t i = 0; i < kBlockValues; ++i) shifted[i] = values[i] - shift;
  const ScaleAndMinimum fit = fit_scale_and_minimum(shifted, {importance, kBlockValues}, most);
  const float scale = put_half(fit.scale, block);
  const float minimum = put_half(shift - fit.minimum, block + 2);
  std::array<int, kBlockValues> codes{};
  for (uint32_t i = 0; i < kBlockValues; ++i) {
    codes[i] = code_of(values[i] - minimum, scale, 0, most);
  }
  if (most == 31) put_fifth_bits(codes, block + 4);
  put_nibbles(codes, block + (most == 31 ? 8 : 4));
}
void encode_q4_1(const float* values, const float* importance, std::byte* block) {
  encode_minimum(values, importance, 15, block);
}
void encode_q5_1(const float* values, const float* importance, std::byte* block) {
  encode_minimum(values, importance, 31, block);
}

// As ggml's reference rounds them: nothing is gained by a search.
void encode_q8_0(const float* values, const float*, std::byte* block) {
  find_quant_format("q8_0")->quantize(values, block);
}

struct NamedEncoder {
  std::string_view name;
  EncodeBlock encode;
};
constexpr NamedEncoder kEncoders[] = {
    {"q4_0", encode_q4_0},  {"q4_1", encode_q4_1},     {"q5_0", encode_q5_0},
    {"q5_1", encode_q5_1},  {"q8_0", encode_q8_0},     {"q2_k", encode_q2_k},
    {"q3_k", encode_q3_k},  {"q4_k", encode_q4_k},     {"q5_k", encode_q5_k},
    {"q6_k", encode_q6_k},  {"iq4_nl", encode_iq4_nl}, {"iq4_xs", encode_iq4_xs},
    {"mxfp4", encode_mxfp4}};

}  // namespace

EncodeBlock find_block_encoder(std::string_view format) {
  const auto* found = std::ranges::find(kEncoders, format, &NamedEncoder::name);
  return found == std::end(kEncoders) || find_quant_format(format) == nullptr ? nullptr
                                                                              : found->encode;
}

std::string block_format_names() {
  std::string names;
  for (const NamedEncoder& each : kEncoders) {
    if (find_quant_format(each.name) == nullptr) continue;
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

void encode_row(std::string_view format, std::span<const float> values,
                std::span<const float> importance, std::byte* out) {
  const QuantFormat& blocks = *find_quant_format(format);
  const EncodeBlock encode = find_block_encoder(format);
  const std::vector<float> alike(importance.empty() ? values.size() : 0, 1.0f);
  if (importance.empty()) importance = alike;
  for (size_t at = 0; at < values.size(); at += blocks.elements, out += blocks.bytes) {
    encode(&values[at], &importance[at], out);
  }
}

}  // namespace tenon::quantize
