#include "core/exec/cuda/weights/packed_matrix.h"

#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/model/formats/quant_format.h"

namespace tenon::cuda {
namespace {

// A block of the formats that can stay packed begins with a scale, an f16, of floats an f32. Those
// with a zero point have it behind the scale, as an f16 too; 32 codes of 4 bits are 16 low nibbles
// and 16 high ones.
struct Block {
  int bits = 0;
  bool has_zero = false;
  bool is_signed = false;  // codes of 8 bits, or what is no integer
  bool floats = false;

  size_t codes_at() const { return has_zero || floats ? 4 : 2; }
  int usual_zero() const { return bits == 4 ? 8 : is_signed ? 0 : 128; }
};

Block block_of(const QuantFormat& format) {
  if (format.name == "q8_0") return {8, false, true};
  if (format.name == "q4_0") return {4, false, false};
  if (format.name.starts_with("u4_")) return {4, true, false};
  if (format.name.starts_with("u8_")) return {8, true, false};
  if (format.name.starts_with("f8_")) return {8, false, true, true};
  return {};
}

float half_at(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return float_from_f16(bits);
}

const std::byte* row_of(const Weight& weight, uint32_t row) {
  const TensorView& part = weight.parts[0];
  return static_cast<const std::byte*>(part.data) + weight.view().stored_row(row) * part.stride[0];
}

// Whether all zero points are whole numbers that kernels can take; `others` where one is not the
// usual one.
bool zeros_fit(const Weight& weight, const QuantFormat& format, const Block& block, bool& others) {
  const float most = block.bits == 4 ? 128.0f : 255.0f;  // QuantScales
  for (uint32_t row = 0; row < weight.n_out; ++row) {
    const std::byte* at = row_of(weight, row);
    for (uint32_t i = 0; i < weight.k_in / format.elements; ++i, at += format.bytes) {
      const float zero = half_at(at + 2);
      if (!(zero >= 0.0f && zero <= most && zero == std::floor(zero))) return false;
      others |= static_cast<int>(zero) != block.usual_zero();
    }
  }
  return true;
}

// Which of 32 elements stands at each place of the four lanes' parts, taken one behind the other.
struct PlacedElements {
  uint8_t at[32] = {};
  constexpr explicit PlacedElements(int bits) {
    for (int k = 0; k < 32; ++k) {
      const int place = quant_place(k, bits);
      const int part = quant_block(bits) / 4;  // of a lane
      at[place / part * 8 + place % part] = static_cast<uint8_t>(k);
    }
  }
};

// Where a lane's part of the 32 elements from k on begins, in bytes.
size_t lane_part(uint32_t k, uint32_t lane, int bits) {
  return static_cast<size_t>(quant_place(static_cast<int>(k + 2 * lane), bits)) * bits / 8;
}

// `count` codes of a row, from k on, which is a multiple of 32.
void pack_nibbles(const std::byte* codes, uint32_t k, uint32_t count, uint8_t* row) {
  static constexpr PlacedElements kElements(4);
  for (const uint32_t end = k + count; k < end; k += 32, codes += 16) {
    const auto code = [&](uint32_t i) {
      return static_cast<uint32_t>(codes[i % 16]) >> (i / 16 * 4) & 15;
    };
    for (uint32_t lane = 0; lane < 4; ++lane) {
      uint8_t* const to = row + lane_part(k, lane, 4);
      for (uint32_t i = 0; i < 4; ++i) {
        const uint8_t* const pair = &kElements.at[lane * 8 + 2 * i];
        to[i] = static_cast<uint8_t>(code(pair[0]) | code(pair[1]) << 4);
      }
    }
  }
}

// Codes of 8 bits become signed; so does their zero point.
void pack_bytes(const std::byte* codes, uint32_t k, uint32_t count, bool is_signed, uint8_t* row) {
  static constexpr PlacedElements kElements(8);
  const uint8_t turn = is_signed ? 0 : 0x80;
  for (const uint32_t end = k + count; k < end; k += 32, codes += 32) {
    for (uint32_t lane = 0; lane < 4; ++lane) {
      uint8_t* const to = row + lane_part(k, lane, 8);
      for (uint32_t i = 0; i < 8; ++i) {
        to[i] = static_cast<uint8_t>(codes[kElements.at[lane * 8 + i]]) ^ turn;
      }
    }
  }
}

}  // namespace

PackedLayout packed_layout(const Weight& weight) {
  const QuantFormat* const format = find_quant_format(weight.format);
  if (format == nullptr || weight.parts.size() != 1) return {};
  const Block block = block_of(*format);
  PackedLayout layout{block.bits, static_cast<int>(format->elements), false, block.floats};
  if (block.bits == 0) return {};
  if (block.has_zero && !zeros_fit(weight, *format, block, layout.zeros)) return {};
  return layout;
}

bool has_fractional_zeros(const Weight& weight) {
  const QuantFormat* const format = find_quant_format(weight.format);
  if (format == nullptr || weight.parts.size() != 1 || !block_of(*format).has_zero) return false;
  return !packed_layout(weight);
}

PackedLayout packed_layout(std::span<const Weight* const> weights) {
  PackedLayout all;
  for (const Weight* weight : weights) {
    const PackedLayout own = packed_layout(*weight);
    if (!own) return {};
    if (all && (own.bits != all.bits || own.group != all.group || own.floats != all.floats)) {
      return {};
    }
    all = {own.bits, own.group, all.zeros || own.zeros, own.floats};
  }
  return all;
}

void pack_row(const Weight& weight, const PackedLayout& layout, uint32_t row, const PackedRow& to) {
  const QuantFormat& format = *find_quant_format(weight.format);
  const Block block = block_of(format);
  const std::byte* at = row_of(weight, row);
  for (uint32_t i = 0; i < weight.k_in / format.elements; ++i, at += format.bytes) {
    std::memcpy(to.scales + i * layout.scale_bytes(), at, layout.scale_bytes());
    if (layout.zeros) {
      const int zero = block.has_zero ? static_cast<int>(half_at(at + 2)) : block.usual_zero();
      to.zeros[i] = static_cast<uint8_t>(block.bits == 8 && !block.is_signed ? zero - 128 : zero);
    }
    const uint32_t k = i * format.elements;
    if (block.bits == 4) {
      pack_nibbles(at + block.codes_at(), k, format.elements, to.codes);
    } else {
      pack_bytes(at + block.codes_at(), k, format.elements, block.is_signed, to.codes);
    }
  }
}

}  // namespace tenon::cuda
