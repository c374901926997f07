// Quantised formats as weights of a tile. q8_0 and q4_0 are widened in registers; the others a
// group at a time in memory, 32 values of a panel as f32, which the tile of f32 then reads: their
// values take more instructions than a tile has registers for.
#pragma once

#include <tenon/sdk/linear/quant_steps.h>

#include "plugins/linear/dense/weights.h"

namespace tenon::dense {
namespace {

inline constexpr uint32_t kGroupFloats = sdk::kQuantGroupValues * kPanelColumns;

// A step is a block. F: the struct of the format.
template <class F>
struct QuantWeights : F32Weights {
  using Steps = sdk::QuantSteps<F, kPanelVectors>;
  static constexpr uint32_t kStep = F::kShape.values;
  static constexpr uint32_t kVectorBytes = Steps::kBlockBytes / kPanelVectors;

  // Group `group`, counted from the first of `block`, as f32 [32][kPanelColumns]. Exact: the values
  // that the format defines.
  static void widen(const std::byte* block, uint32_t group, float* to) {
    block += group / Steps::kGroups * Steps::kBlockBytes;
    const std::byte* from =
        block + Steps::kHeaderBytes + group % Steps::kGroups * Steps::kGroupBytes;
    for (uint32_t line = 0; line < Steps::kGroupBytes; line += 64) {
      __builtin_prefetch(from + line + kWidenAhead);
    }
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      F32 scale{}, bias{};
#pragma GCC unroll 8
      for (uint32_t s = 0; s < sdk::kQuantGroupValues / 4; ++s) {
        if (s % (8 / Steps::kScales) == 0) {
          scale = Steps::scale(block, from, v, s * Steps::kScales / 8);
          bias = Steps::bias(block, from, v, scale);
        }
        const sdk::StepBytes bytes = Steps::step(from, v, s);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; ++i) {
          const auto q = (Words)(bytes >> static_cast<int>(8 * i) & 255u);
          simd::store(to + (4 * s + i) * kPanelColumns + v * simd::kLanes,
                      simd::fma(__builtin_convertvector(q, F32), scale, bias));
        }
      }
    }
  }

 private:
  static constexpr uint32_t kWidenAhead = 2048;  // bytes of the panel asked for before their use
};
template <>
struct QuantWeights<sdk::Q8Block> : Q8Weights {};
template <>
struct QuantWeights<sdk::Q4Block> : Q4Weights {};

template <class W>
concept Expands = requires {
  typename W::Steps;
};

}  // namespace
}  // namespace tenon::dense
