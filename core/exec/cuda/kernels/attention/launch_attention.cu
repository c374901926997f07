#include "core/exec/cuda/kernels/attention/few.cuh"
#include "core/exec/cuda/kernels/attention/rows.cuh"
#include "core/exec/cuda/kernels/attention/wide.cuh"
#include "core/exec/cuda/kernels/launch_config.h"

namespace tenon::cuda {
namespace {

bool is_latent(const AttentionShape& shape) {
  return shape.v_dim != shape.cache.head_dim;
}

bool has_tiles(const AttentionShape& shape) {
  const int dim = shape.cache.head_dim;
  if (shape.cache.type == CacheType::f32) return false;
  if (is_latent(shape)) return dim == kLatentRow && shape.v_dim == kLatentValues;
  return dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256;
}

AttentionView view(const AttentionArrays& arrays, const AttentionShape& shape) {
  AttentionView a;
  a.q = Global<const float>(arrays.q);
  a.type = shape.cache.type;
  a.row_bytes = cache_row_bytes(a.type, shape.cache.head_dim);
  a.scale_at = cache_scale_at(a.type, shape.cache.head_dim);
  if (is_quantised(a.type)) {
    a.k_bytes = Global<const uint8_t>(static_cast<const uint8_t*>(arrays.k));
    a.v_bytes = Global<const uint8_t>(static_cast<const uint8_t*>(arrays.v));
  } else if (has_tiles(shape)) {
    a.k = Global<const BFloat16>(static_cast<const BFloat16*>(arrays.k));
    a.v = Global<const BFloat16>(static_cast<const BFloat16*>(arrays.v));
  }
  a.sequences = Global<const uint32_t>(reinterpret_cast<const uint32_t*>(arrays.sequences));
  a.tiles = Global<const uint32_t>(reinterpret_cast<const uint32_t*>(arrays.tiles));
  a.slots = Global<const uint32_t>(arrays.slots);
  a.parents = Global<const uint32_t>(arrays.parents);
  a.tables = Global<const int32_t>(arrays.tables);
  a.first_ranges = Global<const uint32_t>(arrays.first_ranges);
  a.split_rows = Global<const uint32_t>(arrays.split_rows);
  a.slopes = Global<const float>(arrays.slopes);
  a.sinks = Global<const float>(arrays.sinks);
  a.partial = Global<float>(arrays.partial);
  a.sums = Global<float>(arrays.sums);
  if (shape.out_type == Input::f32) {
    a.out = Global<float>(static_cast<float*>(arrays.out));
  } else {
    a.out_bf16 = Global<BFloat16>(static_cast<BFloat16*>(arrays.out));
  }
  a.heads = shape.heads;
  a.kv_heads = shape.cache.kv_heads;
  a.head_dim = shape.cache.head_dim;
  a.v_dim = shape.v_dim;
  a.v_stride = attention_value_stride(shape.v_dim);
  a.block_tokens = shape.cache.block_tokens;
  a.q_stride = shape.q_stride != 0 ? shape.q_stride : shape.heads * shape.cache.head_dim;
  a.out_stride = shape.out_stride;
  a.out_head_stride = shape.out_head_stride;
  a.window = shape.window;
  a.scale = shape.scale;
  a.cap = shape.cap;
  a.by_cap = shape.cap > 0.0f ? 1.0f / shape.cap : 0.0f;
  // The largest score is that of the largest product where the factor is above 0.
  a.judged = shape.cap > 0.0f || arrays.slopes != nullptr || !(shape.scale > 0.0f);
  a.factor = a.judged ? 1.0f : shape.scale * kLog2E;
  return a;
}

// With the tiles of few items, with wide ones, and with those of trees.
struct TileViews {
  AttentionView few, wide, trees;

  TileViews(AttentionArrays arrays, const AttentionShape& shape) : few(view(arrays, shape)) {
    arrays.tiles += shape.tiles;
    wide = view(arrays, shape);
    arrays.tiles += shape.wide_tiles;
    trees = view(arrays, shape);
  }
};

template <int k_dim, int v_dim>
uint32_t few_shared_bytes() {
  const uint32_t planes = k_dim == v_dim ? 2 : 1;
  return (kTileItems + planes * kSplitEntries) * AttentionTileShape<k_dim>::kStride * 2 +
         kTileItems * kScoreStride * static_cast<uint32_t>(sizeof(float));
}

template <int k_dim, int v_dim>
int launch_few(LaunchConfig config, uint32_t tiles, void (*kernel)(AttentionView),
               const AttentionView& a, const AttentionShape& shape) {
  if (tiles == 0) return 0;
  config.grid = {tiles, static_cast<uint32_t>(shape.cache.kv_heads), shape.splits};
  config.block.x = kFewWarps * kWarp;
  config.shared_bytes = few_shared_bytes<k_dim, v_dim>();
  return launch(config, kernel, a);
}

template <int k_dim, int v_dim, bool quantised>
int attend_tiles(void* stream, const TileViews& views, const AttentionShape& shape) {
  LaunchConfig config = overlapping_config("attend_few", stream);
  const int few = launch_few<k_dim, v_dim>(config, shape.tiles, attend_few<k_dim, v_dim, quantised>,
                                           views.few, shape);
  if (few != 0) return few;
  config.name = "attend_tree";
  return launch_few<k_dim, v_dim>(config, shape.tree_tiles, attend_tree<k_dim, v_dim, quantised>,
                                  views.trees, shape);
}

template <int head_dim, bool quantised>
int attend_heads(void* stream, const TileViews& views, const AttentionShape& shape) {
  if (shape.wide_tiles > 0) {
    LaunchConfig config = overlapping_config("attend_wide", stream);
    config.grid.x =
        shape.wide_tiles * kWideBlocks<head_dim> * static_cast<uint32_t>(shape.cache.kv_heads);
    config.block.x = kWideWarps * kWarp;
    config.shared_bytes = wide_shared_elements<head_dim>() * 2;
    const int wide = launch(config, attend_wide<head_dim, quantised>, views.wide);
    if (wide != 0) return wide;
  }
  return attend_tiles<head_dim, head_dim, quantised>(stream, views, shape);
}

template <bool quantised>
int attend_with_tiles(void* stream, const TileViews& a, const AttentionShape& shape) {
  if (is_latent(shape)) return attend_tiles<kLatentRow, kLatentValues, quantised>(stream, a, shape);
  switch (shape.cache.head_dim) {
    case 64:
      return attend_heads<64, quantised>(stream, a, shape);
    case 80:
      return attend_heads<80, quantised>(stream, a, shape);
    case 96:
      return attend_heads<96, quantised>(stream, a, shape);
    case 128:
      return attend_heads<128, quantised>(stream, a, shape);
    default:
      return attend_heads<256, quantised>(stream, a, shape);
  }
}

template <typename Rows, int dim>
int attend_rows(void* stream, const AttentionView& a, const Rows& k, const Rows& v,
                const AttentionArrays& arrays, const AttentionShape& shape) {
  LaunchConfig config = overlapping_config("attend_plain", stream);
  config.grid = {shape.rows * static_cast<uint32_t>(shape.heads), shape.splits, 1};
  config.block.x = kWarp;
  return launch(config, attend_plain<Rows, dim>, a, k, v,
                Global<const uint32_t>(arrays.row_sequence));
}

template <typename Rows>
int attend_rows(void* stream, const AttentionView& a, const Rows& k, const Rows& v,
                const AttentionArrays& arrays, const AttentionShape& shape) {
  if (shape.cache.head_dim > kMaxHeadDim) {
    return attend_rows<Rows, kMaxLatentDim>(stream, a, k, v, arrays, shape);
  }
  return attend_rows<Rows, kMaxHeadDim>(stream, a, k, v, arrays, shape);
}

template <typename T>
int attend_plain_rows(void* stream, const AttentionView& a, const AttentionArrays& arrays,
                      const AttentionShape& shape) {
  const auto rows = [&](const void* plane) {
    PlainRows<T> made;
    made.plane = Global<const T>(static_cast<const T*>(plane));
    made.dim = a.head_dim;
    return made;
  };
  return attend_rows(stream, a, rows(arrays.k), rows(arrays.v), arrays, shape);
}

int attend_quantised_rows(void* stream, const AttentionView& a, const AttentionArrays& arrays,
                          const AttentionShape& shape) {
  const auto rows = [&](Global<const uint8_t> plane) {
    QuantisedRows made;
    made.plane = plane;
    made.type = a.type;
    made.row_bytes = a.row_bytes;
    made.scale_at = a.scale_at;
    return made;
  };
  return attend_rows(stream, a, rows(a.k_bytes), rows(a.v_bytes), arrays, shape);
}

int attend(void* stream, const AttentionView& a, const AttentionArrays& arrays,
           const AttentionShape& shape) {
  const bool quantised = is_quantised(shape.cache.type);
  if (has_tiles(shape)) {
    const TileViews views(arrays, shape);
    return quantised ? attend_with_tiles<true>(stream, views, shape)
                     : attend_with_tiles<false>(stream, views, shape);
  }
  if (quantised) return attend_quantised_rows(stream, a, arrays, shape);
  if (shape.cache.type == CacheType::bf16) {
    return attend_plain_rows<BFloat16>(stream, a, arrays, shape);
  }
  return attend_plain_rows<float>(stream, a, arrays, shape);
}

}  // namespace

int launch_attention(void* stream, const AttentionArrays& arrays, const AttentionShape& shape) {
  const AttentionView a = view(arrays, shape);
  const int attended = attend(stream, a, arrays, shape);
  if (attended != 0 || shape.split_rows == 0) return attended;
  LaunchConfig config = overlapping_config("join_ranges", stream);
  config.grid = {shape.split_rows, static_cast<uint32_t>(shape.heads),
                 (static_cast<uint32_t>(shape.v_dim) + kRowThreads - 1) / kRowThreads};
  config.block.x = kRowThreads;
  config.shared_bytes = kJoinSharedBytes;
  return launch(config, join_ranges, a);
}

}  // namespace tenon::cuda
