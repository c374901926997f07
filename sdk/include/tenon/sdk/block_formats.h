// Weights in blocks of 32 values with one scale each, as GGUF files store them:
//
//   q8_0   34 bytes   f16 scale | 32 x int8                          value = scale · q
//   q4_0   18 bytes   f16 scale | 16 x {low: q[i], high: q[i + 16]}  value = scale · (q - 8)
//
// A weight of such a format crosses the boundary as one u8 tensor [n_out, bytes of a row], the
// blocks of a row one after the other.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/half.h>
#include <tenon/sdk/linear_panels.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sdk {

enum class BlockFormat : uint32_t { q8_0 = 0, q4_0 = 1 };
inline constexpr uint32_t kBlockValues = 32;

constexpr uint64_t block_bytes(BlockFormat format) noexcept {
  return format == BlockFormat::q8_0 ? 34 : 18;
}

constexpr bool parse_block_format(std::string_view name, BlockFormat& format) noexcept {
  if (name == "q8_0") return format = BlockFormat::q8_0, true;
  if (name == "q4_0") return format = BlockFormat::q4_0, true;
  return false;
}

// Scale bits of a block.
[[gnu::always_inline]] inline uint16_t block_scale(const std::byte* block) noexcept {
  uint16_t bits;
  __builtin_memcpy(&bits, block, 2);
  return bits;
}

// Value i of a block before its scale: -128 … 127, or -8 … 7.
[[gnu::always_inline]] inline int8_t block_value(BlockFormat format, const std::byte* block,
                                                 uint32_t i) noexcept {
  if (format == BlockFormat::q8_0) return static_cast<int8_t>(block[2 + i]);
  const auto pair = static_cast<uint32_t>(block[2 + i % 16]);
  return static_cast<int8_t>(static_cast<int>(i < 16 ? pair & 15 : pair >> 4) - 8);
}

// Null when `weight` is in a block format and whole; else why plugin `id` refuses it.
inline Status check_block_weight(const WeightView& weight, std::string_view id) {
  constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 46;  // beyond any machine's memory
  const std::string name = "\"" + std::string(id) + "\"";
  BlockFormat format;
  if (!parse_block_format(weight.format, format)) {
    return refuse_weight(weight, "has format \"" + std::string(weight.format) + "\"; " + name +
                                     " multiplies q8_0 and q4_0; choose a linear plugin for that "
                                     "format, or \"auto\"");
  }
  if (weight.n_out == 0 || weight.k_in == 0) {
    return refuse_weight(weight, "is empty; its rows and columns must be at least 1");
  }
  if (weight.k_in % kBlockValues != 0) {
    return refuse_weight(weight, "has rows of " + std::to_string(weight.k_in) + " values; " +
                                     std::string(weight.format) +
                                     " stores whole blocks of 32, so the length must be a multiple "
                                     "of 32; the checkpoint is damaged");
  }
  if (weight.parts.size() != 1 || weight.parts[0].data == nullptr) {
    return refuse_weight(weight, "has " + std::to_string(weight.parts.size()) + " parts; " + name +
                                     " expects one tensor with data");
  }
  const TensorView& tensor = weight.parts[0];
  const uint64_t row_bytes = weight.k_in / kBlockValues * block_bytes(format);
  if (tensor.dtype != DType::u8 || tensor.rank != 2 || tensor.shape[0] != weight.n_out ||
      tensor.shape[1] != row_bytes) {
    return refuse_weight(weight,
                         "is a tensor of another type or shape than its format and size say; "
                         "the reader of the checkpoint is at fault");
  }
  if (tensor.stride[1] != 1 || tensor.stride[0] < row_bytes ||
      tensor.space.kind != SpaceKind::host) {
    return refuse_weight(weight, "is not row-major in host memory, as " + name + " expects");
  }
  if (tensor.stride[0] > kMaxWeightBytes / weight.n_out) {
    return refuse_weight(weight, "is larger than any machine's memory; the checkpoint is damaged");
  }
  return Status();
}

}  // namespace tenon::sdk
