// How weights of a quantised format are read from their panels (sdk/linear/quant_panels.h, nibbles
// in halves), as vectors of one instruction set. One step is four values of k of kLanes columns,
// one in each byte of a 32-bit word; eight steps make a group.
//
//   value = scale · stored + bias      bias: the minimum, or -zero · scale, exact before the sum
#pragma once

#include <tenon/sdk/linear/quant_panels.h>
#include <tenon/sdk/simd.h>

#include <cstddef>
#include <cstdint>

namespace tenon::sdk {
namespace {

typedef uint32_t StepBytes __attribute__((vector_size(sizeof(simd::F32))));

// F: the struct of a format. kVectors: vectors side by side in a panel.
template <class F, uint32_t kVectors>
struct QuantSteps {
  static constexpr QuantShape kShape = F::kShape;
  static constexpr uint32_t kColumns = kVectors * simd::kLanes;
  static constexpr QuantPanels kPanels{.format = kShape.format, .columns = kColumns};
  static constexpr uint32_t kGroups = kShape.groups();
  // Scales of a group: one, or one for each half.
  static constexpr uint32_t kScales = kShape.nested && !kShape.has_minimum ? 2 : 1;
  static constexpr uint64_t kHeaderBytes = kPanels.header_bytes();
  static constexpr uint64_t kSmallBytes = kPanels.small_bytes();
  static constexpr uint64_t kGroupBytes = kPanels.group_bytes();
  static constexpr uint64_t kBlockBytes = kPanels.block_bytes();

  // `v`: which vector; `which`: which scale of a group.
  [[gnu::always_inline]] static simd::F32 scale(const std::byte* block, const std::byte* group,
                                                uint32_t v, uint32_t which) {
    const simd::F32 scale = simd::load_f16(block + v * simd::kLanes * 2);
    if constexpr (kShape.nested) return simd::mul(scale, small(group, v, which));
    return scale;
  }
  [[gnu::always_inline]] static simd::F32 bias(const std::byte* block, const std::byte* group,
                                               uint32_t v, simd::F32 scale) {
    if constexpr (kShape.has_minimum) {
      const std::byte* at = block + (kColumns + v * simd::kLanes) * 2;
      const simd::F32 minimum = simd::load_f16(at);
      if constexpr (!kShape.nested) return minimum;
      return simd::mul(minimum, simd::sub(simd::zero(), small(group, v, 1)));
    }
    return simd::mul(scale, simd::set1(-static_cast<float>(kShape.zero)));
  }
  // Unsigned bytes of step `s`; signed ones where values have 8 bits.
  [[gnu::always_inline]] static StepBytes step(const std::byte* group, uint32_t v, uint32_t s) {
    if constexpr (kShape.bits == 8) return word(group, v, s);
    if constexpr (kShape.bits == 6) return six_bits(group, v, s);
    StepBytes bytes = word(group, v, s / 2);
    bytes = (s % 2 == 0 ? bytes : bytes >> 4) & 0x0f0f0f0fu;
    if constexpr (kShape.bits == 4) return bytes;
    const StepBytes top = word(group, v, 4);
    return bytes | ((s < 4 ? top << static_cast<int>(4 - s) : top >> static_cast<int>(s - 4)) &
                    0x10101010u);
  }

 private:
  [[gnu::always_inline]] static simd::F32 small(const std::byte* group, uint32_t v,
                                                uint32_t which) {
    return simd::load_i8(group + which * kColumns + v * simd::kLanes);
  }
  [[gnu::always_inline]] static StepBytes word(const std::byte* group, uint32_t v, uint32_t index) {
    StepBytes value;
    const std::byte* from = group + kSmallBytes + (index * kVectors + v) * sizeof(value);
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  [[gnu::always_inline]] static StepBytes six_bits(const std::byte* group, uint32_t v, uint32_t s) {
    const uint32_t first = s / 4 * 3;
    if (s % 4 < 3) return word(group, v, first + s % 4) & 0x3f3f3f3fu;
    return (word(group, v, first) >> 2 & 0x30303030u) |
           (word(group, v, first + 1) >> 4 & 0x0c0c0c0cu) |
           (word(group, v, first + 2) >> 6 & 0x03030303u);
  }
};

}  // namespace
}  // namespace tenon::sdk
