#include <algorithm>

#include "core/exec/cuda/kernels/products/launch_products.h"
#include "core/exec/cuda/kernels/products/multiply_few_quant.cuh"
#include "core/exec/cuda/kernels/products/multiply_some_quant.cuh"

namespace tenon::cuda {
namespace {

// As many warps of few rows as an H100 has room for: with fewer, some of its multiprocessors have
// nothing to load; with more, the last ones begin when others are done.
constexpr int kDeviceWarps = 132 * 28;

// Of a multiprocessor's memory: more than blocks take, so that those of the kernel behind find room
// beside them, and enough for a first cache that x comes by. Measured (experiment 029).
constexpr int kSharedPercent = 60;

// The warps of a block that share x.
constexpr int warps_of_block(uint32_t rows) {
  return rows <= 2 ? 4 : 8;
}

template <typename Shape>
struct FewQuantLaunch {
  FewQuantPlan plan;
  int rows, groups, group;

  FewQuantLaunch(Shape, const QuantCall& of)
      : rows(static_cast<int>(of.call.rows)), groups(of.quant.groups), group(of.quant.group) {
    plan.gated = of.gated.out != nullptr;
    plan.out.out = Global<BFloat16>(static_cast<BFloat16*>(of.gated.out));
    plan.out.stride = of.gated.stride;
    plan.out.kind = of.gated.kind;
    plan.steps = (of.call.k_in + Shape::kStep - 1) / Shape::kStep;
    plan.chunk = up_to(plan.steps, Shape::kPieceSteps);
    const int tiles = (of.call.n_out + kFewColumns - 1) / kFewColumns;
    const int turns = std::max(1, up_to(tiles * plan.steps, kDeviceWarps) / kDeviceWarps);
    const int least = plan.gated ? 1 : 0;
    plan.down = std::clamp((plan.steps + turns - 1) / turns, 1, Shape::kWarps >> least);
    const int most = std::min(warps_of_block(of.call.rows), Shape::kWarps);
    for (plan.across_log = least; plan.down << (plan.across_log + 1) <= most;) ++plan.across_log;
    while (plan.across_log > least && shared_bytes() > kFewBlockBytes) --plan.across_log;
    // x of long rows comes in parts.
    while (plan.chunk > Shape::kPieceSteps && shared_bytes() > kFewBlockBytes) {
      plan.chunk -= Shape::kPieceSteps;
    }
    while (plan.chunk < plan.steps && plan.chunk % plan.down != 0) --plan.down;
  }
  int warps() const { return plan.across() * plan.down; }
  int shared_bytes() const {
    const int columns = plan.columns();
    const int parts = plan.chunk * Shape::kSegments * columns * rows * 4;
    const int factors = chunk_groups() * columns;
    return up_to(rows * FewQuantX<Shape>::stride_of(plan.chunk) * 2, 16) + parts +
           columns * rows * 4 + up_to(factors * FewQuantScales<Shape>::kBytes, 16);
  }
  int chunk_groups() const { return FewQuantScales<Shape>::groups_of(groups, group, plan.chunk); }
  uint32_t blocks(int n_out) const {
    const int width = plan.gated ? n_out / 2 : n_out;
    const int columns = plan.gated ? plan.columns() / 2 : plan.columns();
    return static_cast<uint32_t>((width + columns - 1) / columns);
  }
};

// Calls `use` with the shape for such codes and such groups.
template <typename Use>
auto with_shape(const QuantCall& call, const Use& use) {
  const int group = call.quant.group;
  return with_codes(call.quant, [&]<typename Codes>(Codes) {
    switch (quant_segment(group)) {
      case 128:
        if (group == 128) return use(FewQuantShape<Codes, 128, true>());
        return use(FewQuantShape<Codes, 128, false>());
      case 64:
        return use(FewQuantShape<Codes, 64, true>());
      default:
        if (group == 32) return use(FewQuantShape<Codes, 32, true>());
        return use(FewQuantShape<Codes, 32, false>());
    }
  });
}

int multiply_few_rows(void* stream, const QuantCall& call) {
  return with_shape(call, [&]<typename Shape>(Shape shape) {
    const FewQuantLaunch<Shape> of(shape, call);
    LaunchConfig config = overlapping_config("multiply_few_quant", stream);
    config.grid.x = of.blocks(call.call.n_out);
    config.block.x = static_cast<uint32_t>(of.warps() * 32);
    config.shared_bytes = static_cast<uint32_t>(of.shared_bytes());
    config.shared_percent = kSharedPercent;
    return launch(config, multiply_few_quant<Shape>, quant_factors(call.call, call.quant), of.plan);
  });
}

template <typename T, typename Codes>
constexpr int lane_bytes() {
  return T::kStages * T::kRows * T::kStep * 2 + T::kSums * 4 + CodeBlocks<T, Codes>::kBytes;
}

// Calls `use` with the tile for so many rows and columns, and with the codes.
template <typename Use>
auto with_quant_tile(const QuantCall& call, const Use& use) {
  return with_codes(call.quant, [&]<typename Codes>(Codes codes) {
    const ProductTiles tiles = tiles_of(call.call);
    const bool many = tiles == ProductTiles::narrow || tiles == ProductTiles::wide;
    if (many && kMuchSharedBytes <= shared_limit()) {
      return use(ManyCodesTile(), codes);
    }
    const auto with_rows = [&]<int rows>(std::integral_constant<int, rows>) {
      return has_wide_blocks(call.call, rows) ? use(WideCodesTile<rows>(), codes)
                                              : use(NarrowCodesTile<rows>(), codes);
    };
    if (call.call.rows <= 16) return with_rows(std::integral_constant<int, 16>());
    return with_rows(std::integral_constant<int, 32>());
  });
}

}  // namespace

bool has_few_rows(const QuantCall& call) {
  if (call.call.rows > kFewQuantRows || call.gated.out) return call.gated.out != nullptr;
  if (call.call.tiles != ProductTiles::by_shape) return call.call.tiles == ProductTiles::rows_16;
  return is_few_quant(call.call.rows, call.call.n_out);
}

int launch_multiply_quant(void* stream, const QuantCall& call) {
  if (has_few_rows(call)) return multiply_few_rows(stream, call);
  return with_quant_tile(call, [&]<typename T, typename Codes>(T, Codes) {
    const int bytes = lane_bytes<T, Codes>();
    const int lanes = some_lanes(call.call, kCodeLanes<T>, bytes);
    return launch(some_config<T>("multiply_some_quant", call.call, lanes, bytes, stream),
                  multiply_some_quant<T, Codes>, quant_factors(call.call, call.quant), lanes,
                  has_pairs(call.call));
  });
}

SomeTileSize some_quant_tile(const QuantCall& call) {
  return with_quant_tile(call, [&]<typename T, typename Codes>(T, Codes) {
    return SomeTileSize{T::kRows, T::kColumns,
                        some_lanes(call.call, kCodeLanes<T>, lane_bytes<T, Codes>())};
  });
}

FewQuantTile few_quant_tile(const QuantCall& call) {
  return with_shape(call, [&]<typename Shape>(Shape shape) {
    const FewQuantLaunch<Shape> of(shape, call);
    return FewQuantTile{of.plan.columns(), Shape::kStep,
                        of.chunk_groups() * ((of.plan.steps + of.plan.chunk - 1) / of.plan.chunk)};
  });
}

}  // namespace tenon::cuda
