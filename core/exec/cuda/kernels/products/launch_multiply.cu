#include <algorithm>

#include "core/exec/cuda/kernels/products/launch_products.h"
#include "core/exec/cuda/kernels/products/multiply_f32.cuh"
#include "core/exec/cuda/kernels/products/multiply_few.cuh"
#include "core/exec/cuda/kernels/products/multiply_many.cuh"

namespace tenon::cuda {
namespace {

LaunchConfig elements_config(const char* name, const MultiplyCall& call, uint32_t rows,
                             void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.block.x = 64;
  config.grid.x = rows;
  config.grid.y = (static_cast<uint32_t>(call.n_out) + 63) / 64;
  return config;
}

template <typename T>
int multiply_many_tiles(void* stream, const MultiplyCall& call, const HeadStrides& heads) {
  LaunchConfig config = overlapping_config("multiply_many", stream);
  config.grid.x = (call.rows + T::kRows - 1) / T::kRows *
                  static_cast<uint32_t>((call.n_out + T::kColumns - 1) / T::kColumns);
  config.grid.z = heads.count;
  config.block.x = T::kThreads;
  config.shared_bytes = T::kSharedBytes;
  const bool pairs = has_pairs(call) && heads.y % 2 == 0;
  return launch(config, multiply_many<T>, factors_with_w<BFloat16>(call), heads, pairs);
}
int multiply_many_rows(void* stream, const MultiplyCall& call, ProductTiles tiles,
                       const HeadStrides& heads) {
  return tiles == ProductTiles::wide && WideTile::kSharedBytes <= shared_limit()
             ? multiply_many_tiles<WideTile>(stream, call, heads)
             : multiply_many_tiles<NarrowTile>(stream, call, heads);
}
bool has_many_rows(ProductTiles tiles) {
  return tiles == ProductTiles::narrow || tiles == ProductTiles::wide;
}

// A warp for each piece of K, as far as there is room; where pieces are few, some groups of columns
// in a block.
struct FewPlan {
  int warps, groups, shared_bytes;

  template <typename Shape>
  static FewPlan of(Shape, int rows, int k_in) {
    const int pieces = (k_in + kPieceElements - 1) / kPieceElements;
    const int warp_bytes = Shape::bytes(rows);
    const int part_bytes = pieces * rows * kFewColumns * 4;
    const int most =
        std::clamp((kFewBlockBytes - 4 * part_bytes) / warp_bytes, 1, kFewProductWarps);
    const int rounds = (pieces + most - 1) / most;
    const int piece_warps = (pieces + rounds - 1) / rounds;
    FewPlan plan;
    plan.groups = std::max(1, std::min(most, 4) / piece_warps);
    plan.warps = piece_warps * plan.groups;
    plan.shared_bytes =
        up_to(16 + plan.warps * warp_bytes, 16) + up_to(plan.groups * part_bytes, 16);
    return plan;
  }
};

// Calls `use` with the shape for so many rows: of more rows a stage has less of W, so that blocks
// keep their warps.
template <typename Use>
auto with_few_shape(const MultiplyCall& call, const Use& use) {
  if (call.rows <= 8) return use(FewShape<128, 4>());
  return use(FewShape<64, 4>());
}

int multiply_few_rows(void* stream, const MultiplyCall& call) {
  return with_few_shape(call, [&]<typename Shape>(Shape shape) {
    const FewPlan plan = FewPlan::of(shape, static_cast<int>(call.rows), call.k_in);
    const int columns = plan.groups * kFewColumns;
    LaunchConfig config = overlapping_config("multiply_few", stream);
    config.grid.x = static_cast<uint32_t>((call.n_out + columns - 1) / columns);
    config.block.x = static_cast<uint32_t>(plan.warps * 32);
    config.shared_bytes = static_cast<uint32_t>(plan.shared_bytes);
    return launch(config, multiply_few<Shape>, factors_with_w<BFloat16>(call), plan.groups);
  });
}

// Calls `use` with the tile of multiply_some.cuh for so many rows and columns.
template <typename Use>
auto with_some_tile(const MultiplyCall& call, const Use& use) {
  if (call.rows <= 32) {
    return has_wide_blocks(call, 32) ? use(SomeTile<32, 4>()) : use(SomeTile<32, 1>());
  }
  return has_wide_blocks(call, 64) ? use(SomeTile<64, 4>()) : use(SomeTile<64, 1>());
}

template <typename T>
constexpr int some_lane_bytes(T) {
  return T::kStages * T::kStage * 2 + T::kSums * 4;
}

int multiply_some_rows(void* stream, const MultiplyCall& call) {
  return with_some_tile(call, [&]<typename T>(T tile) {
    const int bytes = some_lane_bytes(tile);
    const int lanes = some_lanes(call, T::kMostLanes, bytes);
    return launch(some_config<T>("multiply_some", call, lanes, bytes, stream), multiply_some<T>,
                  factors_with_w<BFloat16>(call), lanes, has_pairs(call));
  });
}

ExpertFactors expert_factors(const ExpertRows& rows, uint32_t each) {
  ExpertFactors by;
  by.experts = Global<const uint32_t>(rows.experts);
  by.lists = Global<const uint32_t>(rows.lists);
  by.counts = Global<const uint32_t>(rows.counts);
  by.room = rows.room;
  by.each = each;
  return by;
}

// Every expert gets as many blocks as it has tiles if all rows chose it; those that are too many
// leave at once.
LaunchConfig experts_config(const MultiplyCall& call, const ExpertRows& rows, uint32_t tile_rows,
                            uint32_t column_bytes, void* stream) {
  MultiplyCall of_expert = call;
  of_expert.rows = rows.rows;
  LaunchConfig config =
      tiles_config("multiply_experts", of_expert, tile_rows, column_bytes, stream);
  config.grid.z = rows.count;
  config.shared_bytes += tile_rows * sizeof(uint32_t);
  return config;
}

template <int tile_rows>
int multiply_experts(void* stream, const MultiplyCall& call, const QuantScales& quant,
                     const ExpertRows& rows, uint32_t each) {
  const auto config = [&](uint32_t column_bytes) {
    return experts_config(call, rows, tile_rows, column_bytes, stream);
  };
  if (quant.bits == 0) {
    Factors<BFloat16> f = factors_with_w<BFloat16>(call);
    f.by = expert_factors(rows, each);
    return launch(config(kColumnBytes), multiply_experts_bf16<tile_rows>, f);
  }
  QuantFactors q = quant_factors(call, quant);
  q.f.by = expert_factors(rows, each);
  return with_codes(quant, [&]<typename Codes>(Codes) {
    return launch(config(QuantStage<Codes>::kColumnBytes), multiply_experts_quant<tile_rows, Codes>,
                  q);
  });
}

}  // namespace

FewTile few_tile(const MultiplyCall& call) {
  return with_few_shape(call, [&]<typename Shape>(Shape shape) {
    const FewPlan plan = FewPlan::of(shape, static_cast<int>(call.rows), call.k_in);
    return FewTile{plan.groups * kFewColumns, Shape::kStep};
  });
}

SomeTileSize some_tile(const MultiplyCall& call) {
  return with_some_tile(call, [&]<typename T>(T tile) {
    return SomeTileSize{T::kRows, T::kColumns,
                        some_lanes(call, T::kMostLanes, some_lane_bytes(tile))};
  });
}

int launch_multiply_experts(void* stream, Input type, const MultiplyCall& call,
                            const QuantScales& quant, const ExpertRows& rows, uint32_t each) {
  const uint32_t places = rows.rows * rows.chosen;
  if (type == Input::f32) {
    Factors<float> f = factors_with_w<float>(call);
    f.by = expert_factors(rows, each);
    return launch(elements_config("multiply_experts", call, places, stream), multiply_experts_f32,
                  f);
  }
  if (places <= rows.count * kFewRows) {
    return multiply_experts<kFewRows>(stream, call, quant, rows, each);
  }
  return multiply_experts<kManyRows>(stream, call, quant, rows, each);
}

int launch_multiply(void* stream, Input type, const MultiplyCall& call) {
  if (type == Input::f32) {
    return launch(elements_config("multiply_f32", call, call.rows, stream), multiply_f32,
                  factors_with_w<float>(call));
  }
  const ProductTiles tiles = tiles_of(call);
  if (tiles == ProductTiles::rows_16) return multiply_few_rows(stream, call);
  if (has_many_rows(tiles)) return multiply_many_rows(stream, call, tiles, {1, 0, 0, 0});
  return multiply_some_rows(stream, call);
}

int launch_multiply_heads(void* stream, Input type, const MultiplyCall& call,
                          const HeadStrides& heads) {
  if (type == Input::f32) {
    LaunchConfig config = elements_config("multiply_heads", call, call.rows, stream);
    config.grid.z = heads.count;
    return launch(config, multiply_heads_f32, factors_with_w<float>(call), heads);
  }
  const ProductTiles tiles = tiles_of(call, heads.count);
  if (has_many_rows(tiles)) return multiply_many_rows(stream, call, tiles, heads);
  const bool few = tiles == ProductTiles::rows_16;
  LaunchConfig config =
      tiles_config("multiply_heads", call, few ? kFewRows : kManyRows, kColumnBytes, stream);
  config.grid.z = heads.count;
  const Factors<BFloat16> f = factors_with_w<BFloat16>(call);
  if (few) return launch(config, multiply_heads_bf16<kFewRows>, f, heads);
  return launch(config, multiply_heads_bf16<kManyRows>, f, heads);
}

}  // namespace tenon::cuda
