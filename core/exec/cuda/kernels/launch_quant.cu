#include <algorithm>

#include "core/exec/cuda/kernels/launch_products.h"
#include "core/exec/cuda/kernels/multiply_few_quant.cuh"

namespace tenon::cuda {
namespace {

// As many warps of few rows as an H100 has room for: with fewer, some of its multiprocessors have
// nothing to load; with more, the last ones begin when others are done.
constexpr int kDeviceWarps = 132 * 28;

// The warps of a block that share x.
constexpr int warps_of_block(uint32_t rows) {
  return rows <= 2 ? 4 : rows <= 8 ? 8 : 16;
}

template <typename Shape>
struct FewQuantLaunch {
  FewQuantPlan plan;
  int rows;

  FewQuantLaunch(Shape, const MultiplyCall& call) : rows(static_cast<int>(call.rows)) {
    const int tiles = (call.n_out + kFewColumns - 1) / kFewColumns;
    plan.pieces = (call.k_in + kPieceElements - 1) / kPieceElements;
    plan.run = std::clamp(up_to(tiles * plan.pieces, kDeviceWarps) / kDeviceWarps, 1, plan.pieces);
    const auto share = [&](int most_down) {
      plan.down = std::min((plan.pieces + plan.run - 1) / plan.run, most_down);
      plan.across = std::max(1, std::min(warps_of_block(call.rows), Shape::kWarps) / plan.down);
    };
    share(Shape::kWarps);
    // x of long rows comes in parts.
    while (plan.run > 1 && shared_bytes() > kFewBlockBytes) --plan.run, share(Shape::kWarps);
    while (plan.down > 1 && shared_bytes() > kFewBlockBytes) share(plan.down - 1);
  }
  int warps() const { return plan.across * plan.down; }
  int shared_bytes() const {
    const int resident = std::min(plan.pieces, plan.run * plan.down);
    const int sums = plan.across * rows * kFewColumns * 4;
    return resident * rows * Shape::kXStride * 2 + (resident + 1) * sums +
           warps() * 2 * Shape::kFactors * 4;
  }
};

// Calls `use` with the shape for such groups and so many rows.
template <int bits, typename Use>
auto with_shape(const QuantCall& call, const Use& use) {
  const auto with_tiles = [&]<int tiles>() {
    if (call.quant.group == 128) return use(FewQuantShape<bits, 128, true, tiles>());
    if (call.quant.group == 32) return use(FewQuantShape<bits, 32, true, tiles>());
    return use(FewQuantShape<bits, 32, false, tiles>());
  };
  return call.call.rows <= 8 ? with_tiles.template operator()<1>()
                             : with_tiles.template operator()<2>();
}

template <int bits>
int multiply_few_rows(void* stream, const QuantCall& call) {
  return with_shape<bits>(call, [&]<typename Shape>(Shape shape) {
    const FewQuantLaunch<Shape> of(shape, call.call);
    const int columns = of.plan.across * kFewColumns;
    LaunchConfig config = overlapping_config("multiply_few_quant", stream);
    config.grid.x = static_cast<uint32_t>((call.call.n_out + columns - 1) / columns);
    config.block.x = static_cast<uint32_t>(of.warps() * 32);
    config.shared_bytes = static_cast<uint32_t>(of.shared_bytes());
    return launch(config, multiply_few_quant<Shape>, quant_factors(call.call, call.quant), of.plan);
  });
}

template <int bits>
int multiply_rows(void* stream, const QuantCall& call) {
  if (call.call.rows <= kFewRows) return multiply_few_rows<bits>(stream, call);
  const LaunchConfig config =
      tiles_config("multiply_quant", call.call, kManyRows, QuantStage<bits>::kColumnBytes, stream);
  return launch(config, multiply_quant<kManyRows, bits>, quant_factors(call.call, call.quant));
}

template <int bits>
FewQuantTile tile_of(const QuantCall& call) {
  return with_shape<bits>(call, [&]<typename Shape>(Shape shape) {
    const FewQuantLaunch<Shape> of(shape, call.call);
    return FewQuantTile{of.plan.across * kFewColumns, Shape::kStep, Shape::kRun, Shape::kTiles * 8};
  });
}

}  // namespace

int launch_multiply_quant(void* stream, const QuantCall& call) {
  return call.quant.bits == 4 ? multiply_rows<4>(stream, call) : multiply_rows<8>(stream, call);
}

FewQuantTile few_quant_tile(const QuantCall& call) {
  return call.quant.bits == 4 ? tile_of<4>(call) : tile_of<8>(call);
}

}  // namespace tenon::cuda
