// The micro-kernel of `int8` for q8_0 and q4_0 against its definition, bit by bit, in the set that
// this is compiled for: any number of rows, the largest bytes there are, sums that go on.
#pragma once

#include <cmath>
#include <vector>

#include "plugins/linear/int8/prepare.h"
#include "plugins/linear/int8/tile.h"
#include "tests/isa/checks.h"

namespace tenon::checks {
namespace {

using namespace int8;

constexpr uint32_t kGroups = 5;
constexpr const char* kSet = TENON_TEXT(TENON_INT8_SET);

float fused(float a, float b, float c) {
  return std::strcmp(kSet, "portable") == 0 ? a * b + c : std::fma(a, b, c);
}

// Weights of a panel as numbers, and as the panel stores them.
template <class L>
struct Panel {
  static constexpr bool kNibbles = L::kSteps == 2;
  int weights[kPanelColumns][kGroups * 32];
  float scales[kPanelColumns][kGroups];
  std::vector<std::byte> bytes = std::vector<std::byte>(kGroups * kGroupBytes<L>);

  explicit Panel(Numbers& numbers, bool largest) {
    constexpr int kLow = kNibbles ? -8 : -128, kHigh = kNibbles ? 7 : 127;
    for (uint32_t column = 0; column < kPanelColumns; ++column) {
      for (int& weight : weights[column]) {
        weight = kLow + static_cast<int>(numbers.next() % (kHigh - kLow + 1));
        if (largest) weight = column % 2 == 0 ? kLow : kHigh;
      }
      for (uint32_t g = 0; g < kGroups; ++g) set_scale(column, g, numbers.unit());
    }
    for (uint32_t g = 0; g < kGroups; ++g) {
      for (uint32_t column = 0; column < kPanelColumns; ++column) {
        for (uint32_t k = 0; k < 32; ++k) store(g, column, k);
      }
    }
  }

 private:
  std::byte* group(uint32_t g) { return bytes.data() + g * kGroupBytes<L>; }
  void set_scale(uint32_t column, uint32_t g, float value) {
    const uint16_t half = sdk::float_to_f16(value);
    scales[column][g] = sdk::f16_to_float(half);
    std::memcpy(group(g) + column * 2, &half, 2);
  }
  void store(uint32_t g, uint32_t column, uint32_t k) {
    const uint32_t vector = column / simd::kLanes, lane = column % simd::kLanes;
    const uint32_t word = k / 4 / L::kSteps;
    std::byte& at = group(
        g)[L::kScaleBytes + (word * kPanelVectors + vector) * kVectorBytes + lane * 4 + k % 4];
    const int stored = weights[column][g * 32 + k] + static_cast<int>(kStoredOffset[kNibbles]);
    if (kNibbles) {
      at |= static_cast<std::byte>(stored << (k / 4 % 2 * 4));
    } else {
      at = static_cast<std::byte>(stored);
    }
  }
};

template <class L>
void check_rows(Numbers& numbers, uint32_t rows, bool largest) {
  const Panel<L> panel(numbers, largest);
  std::vector<float> x(rows * kGroups * 32);
  for (float& value : x) value = largest ? (numbers.next() % 2 == 0 ? 1 : -1) : numbers.unit();
  std::vector<std::byte> prepared(rows * kRowBlockBytes);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t g = 0; g < kGroups; ++g) {
      auto* to = reinterpret_cast<RowGroup*>(prepared.data() + r * kRowBlockBytes);
      quantise(x.data() + (r * kGroups + g) * 32, to[g]);
    }
  }
  std::vector<float> sums(rows * kPanelColumns, 0.25f);
  TileTask task{.panel = panel.bytes.data(),
                .x = prepared.data(),
                .groups = kGroups,
                .sums = sums.data(),
                .resume = true};
  tile_for<L>(rows)(task);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t column = 0; column < kPanelColumns; ++column) {
      float expected = 0.25f;
      for (uint32_t g = 0; g < kGroups; ++g) {
        const auto* row =
            reinterpret_cast<const RowGroup*>(prepared.data() + r * kRowBlockBytes) + g;
        int whole = 0;
        for (uint32_t k = 0; k < 32; ++k) whole += row->q[k] * panel.weights[column][g * 32 + k];
        const float value = static_cast<float>(whole) * panel.scales[column][g];
        expected = fused(value, row->scale, expected);
      }
      check(same(sums[r * kPanelColumns + column], expected), kSet, rows, column);
    }
  }
}

template <class L>
void check_all(Numbers& numbers) {
  for (uint32_t rows = 1; rows <= kMostRows<L>; ++rows) {
    for (int round = 0; round < 4; ++round) check_rows<L>(numbers, rows, round == 3);
  }
}

void check_tiles() {
  Numbers numbers;
  check_all<PackedQ8>(numbers);
  check_all<PackedQ4>(numbers);
}

}  // namespace
}  // namespace tenon::checks
