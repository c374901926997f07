#include <algorithm>

#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/multiply_few.cuh"
#include "core/exec/cuda/kernels/multiply_many.cuh"

namespace tenon::cuda {
namespace {

// Rows of a block: many rows share what was read of W, few would leave most of a tile empty.
constexpr uint32_t kFewRows = 16;
constexpr uint32_t kManyRows = 64;

LaunchConfig tiles_config(const char* name, const MultiplyCall& c, uint32_t tile_rows,
                          int weight_bytes, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = static_cast<uint32_t>((c.n_out + kColumns - 1) / kColumns);
  config.grid.y = (c.rows + tile_rows - 1) / tile_rows;
  config.block.x = kMultiplyThreads;
  const int rows_bytes = static_cast<int>(tile_rows) * kRowStride * 2;
  config.shared_bytes = static_cast<uint32_t>(kStages * (rows_bytes + kColumns * weight_bytes));
  return config;
}

template <typename T>
Factors<T> factors(const MultiplyCall& c) {
  Factors<T> f;
  f.x = Global<const T>(static_cast<const T*>(c.x));
  f.bias = Global<const float>(c.bias);
  f.y = Global<float>(c.y);
  f.rows = c.rows;
  f.n_out = c.n_out;
  f.k_in = c.k_in;
  f.x_stride = c.x_stride;
  f.w_stride = c.w_stride;
  f.y_stride = c.y_stride;
  f.add = c.add;
  f.factor = c.factor;
  return f;
}

LaunchConfig elements_config(const char* name, const MultiplyCall& call, uint32_t rows,
                             void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.block.x = 64;
  config.grid.x = (static_cast<uint32_t>(call.n_out) + 63) / 64;
  config.grid.y = rows;
  return config;
}

template <typename T>
Factors<T> factors_with_w(const MultiplyCall& call) {
  Factors<T> f = factors<T>(call);
  f.w = Global<const T>(static_cast<const T*>(call.w));
  return f;
}

template <typename T>
int multiply_many_tiles(void* stream, const MultiplyCall& call, const HeadStrides& heads) {
  LaunchConfig config = overlapping_config("multiply_many", stream);
  config.grid.x = (call.rows + T::kRows - 1) / T::kRows *
                  static_cast<uint32_t>((call.n_out + T::kColumns - 1) / T::kColumns);
  config.grid.z = heads.count;
  config.block.x = T::kThreads;
  config.shared_bytes = T::kSharedBytes;
  const bool pairs =
      reinterpret_cast<uintptr_t>(call.y) % 8 == 0 && call.y_stride % 2 == 0 && heads.y % 2 == 0;
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

QuantFactors quant_factors(const MultiplyCall& call, const QuantScales& quant) {
  QuantFactors q;
  q.f = factors<BFloat16>(call);
  q.w = Global<const uint8_t>(static_cast<const uint8_t*>(call.w));
  q.scales = Global<const Half>(reinterpret_cast<const Half*>(quant.scales));
  q.zeros = Global<const uint8_t>(quant.zeros);
  q.groups = quant.groups;
  q.group = quant.group;
  return q;
}

constexpr int kFewBlockBytes = 96 * 1024;  // of shared memory, which every device has

constexpr int up_to(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// A warp for each piece of K, as far as there is room; where pieces are few, some groups of columns
// in a block.
struct FewPlan {
  int pieces, warps, groups, shared_bytes;

  template <typename Shape>
  static FewPlan of(Shape, int rows, int k_in) {
    FewPlan plan;
    plan.pieces = (k_in + kPieceElements - 1) / kPieceElements;
    const int warp_bytes = Shape::bytes(rows);
    const int part_bytes = plan.pieces * rows * Shape::kColumns * 4;
    const int most =
        std::clamp((kFewBlockBytes - 4 * part_bytes) / warp_bytes, 1, kFewProductWarps);
    const int rounds = (plan.pieces + most - 1) / most;
    const int piece_warps = (plan.pieces + rounds - 1) / rounds;
    plan.groups = std::max(1, std::min(most, 4) / piece_warps);
    plan.warps = piece_warps * plan.groups;
    plan.shared_bytes =
        up_to(16 + plan.warps * warp_bytes, 16) + up_to(plan.groups * part_bytes, 16);
    return plan;
  }
};

// Calls `use` with the shape for so many rows. Of few rows a stage has much of W; of more it has
// less, so that blocks keep their warps.
template <int bits, int run, typename Use>
auto with_quant_shape(const Factors<BFloat16>& f, const Use& use) {
  if (f.rows <= 2) return use(FewShape<bits, 256, 2, run, true>());
  if (f.rows <= 8) return use(FewShape<bits, 256, 3, run, false>());
  return use(FewShape<bits, 128, 4, run, false>());
}
template <int bits, typename Use>
auto with_few_shape(const Factors<BFloat16>& f, int group, const Use& use) {
  if constexpr (bits == 16) {
    if (f.rows <= 8) return use(FewShape<16, 128, 4, 64, false>());
    return use(FewShape<16, 64, 4, 64, false>());
  } else {
    if (group % 128 == 0) return with_quant_shape<bits, 128>(f, use);
    return with_quant_shape<bits, 32>(f, use);
  }
}

template <int bits>
int multiply_few_rows(void* stream, const QuantFactors& q) {
  return with_few_shape<bits>(q.f, q.group, [&]<typename Shape>(Shape shape) {
    const FewPlan plan = FewPlan::of(shape, static_cast<int>(q.f.rows), q.f.k_in);
    const int columns = plan.groups * Shape::kColumns;
    LaunchConfig config = overlapping_config("multiply_few", stream);
    config.grid.x = static_cast<uint32_t>((q.f.n_out + columns - 1) / columns);
    config.block.x = static_cast<uint32_t>(plan.warps * 32);
    config.shared_bytes = static_cast<uint32_t>(plan.shared_bytes);
    return launch(config, multiply_few<Shape>, q, plan.groups);
  });
}

template <int bits>
FewTile few_tile_of(const Factors<BFloat16>& f, int group) {
  return with_few_shape<bits>(f, group, [&]<typename Shape>(Shape shape) {
    const FewPlan plan = FewPlan::of(shape, static_cast<int>(f.rows), f.k_in);
    return FewTile{plan.groups * Shape::kColumns, Shape::kStep};
  });
}

// W as bytes.
QuantFactors few_factors(const MultiplyCall& call) {
  QuantFactors q;
  q.f = factors<BFloat16>(call);
  q.f.w_stride *= 2;
  q.w = Global<const uint8_t>(static_cast<const uint8_t*>(call.w));
  q.groups = q.group = 0;
  return q;
}

template <int bits>
int multiply_bits(void* stream, const QuantCall& q, const QuantFactors& f) {
  if (q.call.rows <= kFewRows) return multiply_few_rows<bits>(stream, f);
  const LaunchConfig config =
      tiles_config("multiply_quant", q.call, kManyRows, QuantStage<bits>::kStride, stream);
  return launch(config, multiply_quant<kManyRows, bits>, f);
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
                            int weight_bytes, void* stream) {
  MultiplyCall of_expert = call;
  of_expert.rows = rows.rows;
  LaunchConfig config =
      tiles_config("multiply_experts", of_expert, tile_rows, weight_bytes, stream);
  config.grid.z = rows.count;
  config.shared_bytes += tile_rows * sizeof(uint32_t);
  return config;
}

template <int tile_rows>
int multiply_experts(void* stream, const MultiplyCall& call, const QuantScales& quant,
                     const ExpertRows& rows, uint32_t each) {
  const auto config = [&](int weight_bytes) {
    return experts_config(call, rows, tile_rows, weight_bytes, stream);
  };
  if (quant.bits == 0) {
    Factors<BFloat16> f = factors_with_w<BFloat16>(call);
    f.by = expert_factors(rows, each);
    return launch(config(kRowStride * 2), multiply_experts_bf16<tile_rows>, f);
  }
  QuantFactors q = quant_factors(call, quant);
  q.f.by = expert_factors(rows, each);
  if (quant.bits == 4) {
    return launch(config(QuantStage<4>::kStride), multiply_experts_quant<tile_rows, 4>, q);
  }
  return launch(config(QuantStage<8>::kStride), multiply_experts_quant<tile_rows, 8>, q);
}

}  // namespace

FewTile few_tile(const MultiplyCall& call, int bits, int group) {
  Factors<BFloat16> f;
  f.rows = call.rows;
  f.n_out = call.n_out;
  f.k_in = call.k_in;
  if (bits == 4) return few_tile_of<4>(f, group);
  return bits == 8 ? few_tile_of<8>(f, group) : few_tile_of<16>(f, group);
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
  if (tiles == ProductTiles::rows_16) return multiply_few_rows<16>(stream, few_factors(call));
  if (has_many_rows(tiles)) return multiply_many_rows(stream, call, tiles, {1, 0, 0, 0});
  const LaunchConfig config =
      tiles_config("multiply_bf16", call, kManyRows, kRowStride * 2, stream);
  return launch(config, multiply_bf16<kManyRows>, factors_with_w<BFloat16>(call));
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
      tiles_config("multiply_heads", call, few ? kFewRows : kManyRows, kRowStride * 2, stream);
  config.grid.z = heads.count;
  const Factors<BFloat16> f = factors_with_w<BFloat16>(call);
  if (few) return launch(config, multiply_heads_bf16<kFewRows>, f, heads);
  return launch(config, multiply_heads_bf16<kManyRows>, f, heads);
}

int launch_multiply_quant(void* stream, const QuantCall& call) {
  const QuantFactors f = quant_factors(call.call, call.quant);
  return call.quant.bits == 4 ? multiply_bits<4>(stream, call, f)
                              : multiply_bits<8>(stream, call, f);
}

}  // namespace tenon::cuda
