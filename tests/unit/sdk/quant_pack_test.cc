// Panels hold what bits_of_value says, for every format, width of a panel, order and offset.
#include <gtest/gtest.h>
#include <tenon/sdk/linear/quant_pack.h>

#include <random>
#include <vector>

namespace tenon::sdk {
namespace {

// A weight of random bytes: packing takes every pattern, whatever its scales mean.
class RandomWeight {
 public:
  RandomWeight(QuantFormat format, uint32_t n_out, uint32_t k_in)
      : shape_(quant_shape(format)), bytes_(uint64_t{n_out} * row_bytes(k_in)) {
    std::mt19937 random(static_cast<uint32_t>(format));
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random() >> 7);
    tensor_.data = bytes_.data();
    tensor_.dtype = DType::u8;
    tensor_.shape[0] = n_out;
    tensor_.shape[1] = tensor_.stride[0] = static_cast<int64_t>(row_bytes(k_in));
    tensor_.stride[1] = 1;
    view_.parts = {&tensor_, 1};
    view_.format = shape_.name;
    view_.n_out = n_out;
    view_.k_in = k_in;
  }

  const WeightView& view() const { return view_; }
  const std::byte* block(uint32_t row, uint32_t index) const {
    return bytes_.data() + row * row_bytes(view_.k_in) + uint64_t{index} * shape_.bytes;
  }

 private:
  uint64_t row_bytes(uint32_t k_in) const { return uint64_t{k_in} / shape_.values * shape_.bytes; }

  QuantShape shape_;
  std::vector<std::byte> bytes_;
  TensorView tensor_;
  WeightView view_;
};

// What is stored of value k of a group at `values`.
uint32_t stored_at(const QuantPanels& panels, const std::byte* values, uint32_t column,
                   uint32_t k) {
  const uint32_t bits = quant_shape(panels.format).bits;
  const auto place = detail::bits_of_value(bits, panels.order, panels.columns, column, k);
  uint32_t stored = 0;
  for (uint32_t i = 0; i < place.count; ++i) {
    const detail::BitPiece& piece = place.piece[i];
    const auto byte = static_cast<uint32_t>(values[piece.byte]);
    stored |= (byte >> piece.at & ((1u << piece.count) - 1)) << piece.from;
  }
  return stored;
}

// One group of a panel against the block that it is of; a column without a row is zero.
template <class F>
void check_group(const QuantPanels& panels, const std::byte* header, uint32_t within,
                 uint32_t column, const std::byte* block, uint32_t group) {
  constexpr QuantShape kShape = F::kShape;
  const std::byte* small = header + panels.small_at(within);
  for (uint32_t i = 0; i < small_bytes_of(kShape.small); ++i) {
    if constexpr (kShape.nested()) {
      const uint32_t want = block == nullptr ? 0 : F::small(block, group, i) & 255;
      ASSERT_EQ(static_cast<uint32_t>(small[i * panels.columns + column]), want);
    }
  }
  const std::byte* values =
      header + panels.header_bytes() + within * panels.group_bytes() + panels.small_bytes();
  for (uint32_t k = 0; k < kQuantGroupValues; ++k) {
    uint32_t want = 0;
    if (block != nullptr) {
      const uint64_t eight = F::eight(block, group * kQuantGroupValues + k / 8 * 8);
      want = ((eight >> (k % 8 * 8) & 255) + panels.offset) & ((1u << kShape.bits) - 1);
    }
    ASSERT_EQ(stored_at(panels, values, column, k), want) << kShape.name << " value " << k;
  }
}

template <class F>
void check_panel(const RandomWeight& weight, const QuantPanels& panels, uint32_t panel) {
  constexpr QuantShape kShape = F::kShape;
  // What comes after a panel stays.
  std::vector<std::byte> packed(panels.panel_bytes() + 64, std::byte{0xa5});
  pack_quant_panel(weight.view(), panels, panel, packed.data());
  for (uint64_t at = panels.panel_bytes(); at < packed.size(); ++at) {
    ASSERT_EQ(packed[at], std::byte{0xa5});
  }
  for (uint32_t column = 0; column < panels.columns; ++column) {
    const uint32_t row = panel * panels.columns + column;
    const bool there = row < weight.view().n_out;
    for (uint32_t g = 0; g < panels.k_in / kQuantGroupValues; ++g) {
      const std::byte* header = packed.data() + g / panels.block_groups() * panels.block_bytes();
      const std::byte* block = there ? weight.block(row, g / kShape.groups()) : nullptr;
      ASSERT_NO_FATAL_FAILURE(check_group<F>(panels, header, g % panels.block_groups(), column,
                                             block, g % kShape.groups()));
      uint32_t scale = 0, want = 0;
      std::memcpy(&scale, header + column * scale_bytes(kShape.scale_type),
                  scale_bytes(kShape.scale_type));
      if constexpr (requires { F::scale_bits(block); }) {
        if (there) want = F::scale_bits(block);
      } else if (there) {
        std::memcpy(&want, block + kShape.scale_at, scale_bytes(kShape.scale_type));
      }
      ASSERT_EQ(scale, want) << kShape.name;
      if (!kShape.has_second()) continue;
      const uint32_t second = detail::half_word_at(header + panels.scales_bytes(), 2 * column);
      ASSERT_EQ(second, there ? detail::half_word_at(block, kShape.scale_at + 2) : 0u);
    }
  }
}

// All ways in which kernels ask for a format's panels.
std::vector<QuantPanels> layouts_of(const QuantShape& shape, uint32_t k_in) {
  std::vector<QuantPanels> all;
  for (const uint32_t columns : {8u, 16u, 32u}) {
    for (const uint32_t offset : {0u, 133u}) {
      const QuantPanels plain{.format = panel_format(shape.format),
                              .columns = columns,
                              .k_in = k_in,
                              .offset = offset,
                              .header_groups = shape.groups()};
      all.push_back(plain);
      // Only nibbles have an order, and only where groups have no small scales may each have a
      // header.
      if (shape.bits == 4) {
        all.push_back(plain);
        all.back().order = NibbleOrder::in_turn;
      }
      if (!shape.nested() && shape.groups() > 1) {
        all.push_back(plain);
        all.back().header_groups = 1;
      }
    }
  }
  return all;
}

TEST(QuantPack, panels_hold_each_value_where_the_layout_says) {
  for (uint32_t format = 0; format < kQuantFormats; ++format) {
    with_quant_format(static_cast<QuantFormat>(format), [&](auto block) {
      using F = decltype(block);
      constexpr QuantShape kShape = F::kShape;
      // More blocks than one run has; the last panel lacks columns.
      constexpr uint32_t kBlocks = kShape.values > 64 ? 3 : 11, kOut = 46;
      const RandomWeight weight(kShape.format, kOut, kBlocks * kShape.values);
      for (const QuantPanels& panels : layouts_of(kShape, weight.view().k_in)) {
        for (const uint32_t panel : {0u, (kOut - 1) / panels.columns}) {
          ASSERT_NO_FATAL_FAILURE(check_panel<F>(weight, panels, panel))
              << kShape.name << " columns " << panels.columns << " offset " << panels.offset;
        }
      }
    });
  }
}

}  // namespace
}  // namespace tenon::sdk
