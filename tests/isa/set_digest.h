// Products of `int8` as one number: sets that share the name of their numerics must print the same
// (decision 134), whatever processor they are of. Weights are packed as the plugin packs them, so a
// panel's width is the set's own.
#pragma once

#include <tenon/sdk/linear/quant_pack.h>

#include <vector>

#include "plugins/linear/int8/multiply.h"
#include "plugins/linear/int8/prepare.h"
#include "tests/isa/checks.h"

namespace tenon::checks {
namespace {

using namespace int8;

inline constexpr uint32_t kDigestRows = 4, kTileOfRows = 2, kDigestOut = 32, kDigestK = 512;

// FNV-1a of 64 bits.
class Digest {
 public:
  void add(float value) {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      hash_ = (hash_ ^ (bits_of(value) >> (8 * byte) & 255)) * 0x100000001b3u;
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// Random blocks, whose scales are ordinary numbers.
template <class F>
std::vector<std::byte> random_blocks(Numbers& numbers) {
  constexpr sdk::QuantShape kShape = F::kShape;
  static_assert(kShape.scale_type == sdk::ScaleType::f16);
  std::vector<std::byte> blocks(uint64_t{kDigestOut} * kDigestK / kShape.values * kShape.bytes);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(numbers.next() >> 9);
  for (uint64_t at = 0; at < blocks.size(); at += kShape.bytes) {
    for (uint32_t i = 0; i < (kShape.has_second() ? 2u : 1u); ++i) {
      const uint16_t half = sdk::float_to_f16(numbers.unit() / 64);
      std::memcpy(blocks.data() + at + kShape.scale_at + 2 * i, &half, 2);
    }
  }
  return blocks;
}

template <class F>
void add_products(Numbers& numbers, Digest& digest) {
  using L = typename PackedForm<F>::Type;
  constexpr sdk::QuantShape kShape = F::kShape;
  const std::vector<std::byte> blocks = random_blocks<F>(numbers);
  TensorView tensor;
  tensor.data = blocks.data();
  tensor.stride[0] = kDigestK / kShape.values * kShape.bytes;
  WeightView weight;
  weight.parts = {&tensor, 1};
  weight.n_out = kDigestOut;
  weight.k_in = kDigestK;
  const sdk::QuantPanels panels{
      .format = kShape.format,
      .columns = kPanelColumns,
      .k_in = kDigestK,
      .offset = kShape.format == sdk::QuantFormat::q8_0 ? kStoredOffset[0] : 0,
      .header_groups = kShape.nested() ? 0 : kShape.groups()};
  constexpr uint32_t kGroupsOfX = kDigestK / 32;
  static_assert(kGroupsOfX <= kBlockGroups);
  std::vector<std::byte> prepared(kDigestRows * kRowBlockBytes);
  for (uint32_t r = 0; r < kDigestRows; ++r) {
    auto* to = reinterpret_cast<RowGroup*>(prepared.data() + r * kRowBlockBytes);
    for (uint32_t g = 0; g < kGroupsOfX; ++g) {
      float x[32];
      for (float& value : x) value = numbers.unit() * numbers.unit();
      quantise(x, to[g]);
    }
  }
  std::vector<float> all(kDigestRows * kDigestOut);
  std::vector<std::byte> packed(panels.panel_bytes());
  for (uint32_t panel = 0; panel < kDigestOut / kPanelColumns; ++panel) {
    sdk::detail::pack_panel_of<F>(weight, panels, panel, packed.data());
    for (uint32_t first = 0; first < kDigestRows; first += kTileOfRows) {
      float sums[kTileOfRows][kPanelColumns] = {};
      const TileTask task{.panel = packed.data(),
                          .x = prepared.data() + first * kRowBlockBytes,
                          .groups = kGroupsOfX,
                          .block_groups = panels.header_groups,
                          .sums = sums[0]};
      if constexpr (IsBlocks<L>) {
        quant_tile<L, kTileOfRows>(task);
      } else {
        tile<L, kTileOfRows>(task);
      }
      for (uint32_t r = 0; r < kTileOfRows; ++r) {
        std::memcpy(all.data() + (first + r) * kDigestOut + panel * kPanelColumns, sums[r],
                    sizeof(sums[r]));
      }
    }
  }
  for (const float sum : all) digest.add(sum);
}

// Of one format for each way in which tiles read panels.
inline uint64_t set_digest() {
  Numbers numbers;
  Digest digest;
  add_products<sdk::Q8Block>(numbers, digest);
  add_products<sdk::Q4Block>(numbers, digest);
  add_products<sdk::Q4MinBlock>(numbers, digest);
  add_products<sdk::Q5Block>(numbers, digest);
  add_products<sdk::Q5SuperBlock>(numbers, digest);
  add_products<sdk::Q4SuperBlock>(numbers, digest);
  add_products<sdk::Q6SuperBlock>(numbers, digest);
  add_products<sdk::Iq4SuperBlock>(numbers, digest);
  return digest.value();
}

}  // namespace
}  // namespace tenon::checks
