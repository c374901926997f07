#include <algorithm>

#include "core/exec/cuda/kernels/launch_products.h"
#include "core/exec/cuda/kernels/multiply_few_quant.cuh"

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
  return rows <= 2 ? 4 : rows <= 8 ? 8 : 16;
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

// Calls `use` with the shape for such codes, such groups and so many rows.
template <typename Use>
auto with_shape(const QuantCall& call, const Use& use) {
  const int group = call.quant.group;
  const auto with_tiles = [&]<typename Codes, int tiles>(Codes) {
    switch (quant_segment(group)) {
      case 128:
        if (group == 128) return use(FewQuantShape<Codes, 128, true, tiles>());
        return use(FewQuantShape<Codes, 128, false, tiles>());
      case 64:
        return use(FewQuantShape<Codes, 64, true, tiles>());
      default:
        if (group == 32) return use(FewQuantShape<Codes, 32, true, tiles>());
        return use(FewQuantShape<Codes, 32, false, tiles>());
    }
  };
  return with_codes(call.quant, [&]<typename Codes>(Codes codes) {
    return call.call.rows <= 8 ? with_tiles.template operator()<Codes, 1>(codes)
                               : with_tiles.template operator()<Codes, 2>(codes);
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

}  // namespace

int launch_multiply_quant(void* stream, const QuantCall& call) {
  if (call.call.rows <= kFewRows) return multiply_few_rows(stream, call);
  return with_codes(call.quant, [&]<typename Codes>(Codes) {
    const LaunchConfig config = tiles_config("multiply_quant", call.call, kManyRows,
                                             QuantStage<Codes>::kColumnBytes, stream);
    return launch(config, multiply_quant<kManyRows, Codes>, quant_factors(call.call, call.quant));
  });
}

FewQuantTile few_quant_tile(const QuantCall& call) {
  return with_shape(call, [&]<typename Shape>(Shape shape) {
    const FewQuantLaunch<Shape> of(shape, call);
    return FewQuantTile{of.plan.columns(), Shape::kStep, Shape::kTiles * 8,
                        of.chunk_groups() * ((of.plan.steps + of.plan.chunk - 1) / of.plan.chunk)};
  });
}

}  // namespace tenon::cuda
