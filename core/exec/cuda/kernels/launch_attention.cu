#include "core/exec/cuda/kernels/attention_latent.cuh"

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
  a.slopes = Global<const float>(arrays.slopes);
  a.partial = Global<float>(arrays.partial);
  a.sums = Global<float>(arrays.sums);
  a.heads = shape.heads;
  a.kv_heads = shape.cache.kv_heads;
  a.head_dim = shape.cache.head_dim;
  a.v_dim = shape.v_dim;
  a.block_tokens = shape.cache.block_tokens;
  a.q_stride = shape.q_stride == 0 ? shape.heads * shape.cache.head_dim : shape.q_stride;
  a.rows = shape.rows;
  a.window = shape.window;
  a.scale = shape.scale;
  a.cap = shape.cap;
  return a;
}

// With the tiles of rows that follow each other, and with those of trees.
struct TileViews {
  AttentionView chains, trees;

  TileViews(AttentionArrays arrays, const AttentionShape& shape) : chains(view(arrays, shape)) {
    arrays.tiles += shape.tiles;
    trees = view(arrays, shape);
  }
};

template <int head_dim>
uint32_t shared_bytes(int warps) {
  return (16 * static_cast<uint32_t>(warps) + 2 * kEntries) *
         AttentionTileShape<head_dim>::kStride * 2;
}

int launch_tiles(LaunchConfig config, uint32_t tiles, void (*kernel)(AttentionView),
                 const AttentionView& a, const AttentionShape& shape) {
  if (tiles == 0) return 0;
  config.grid = {tiles, static_cast<uint32_t>(shape.cache.kv_heads), shape.splits};
  return launch(config, kernel, a);
}

template <int head_dim>
int attend(void* stream, const TileViews& views, const AttentionShape& shape) {
  LaunchConfig config;
  config.name = "attend_tiles";
  config.block.x = static_cast<uint32_t>(shape.warps) * kWarp;
  config.shared_bytes = shared_bytes<head_dim>(shape.warps);
  config.stream = stream;
  const auto chains = shape.warps == 1 ? attend_tiles<head_dim, 1> : attend_tiles<head_dim, 4>;
  const int attended = launch_tiles(config, shape.tiles, chains, views.chains, shape);
  if (attended != 0) return attended;
  config.name = "attend_tree";
  config.block.x = kWarp;
  config.shared_bytes = shared_bytes<head_dim>(1);
  return launch_tiles(config, shape.tree_tiles, attend_tree<head_dim>, views.trees, shape);
}

int attend_latent_bf16(void* stream, const TileViews& views, const AttentionShape& shape) {
  LaunchConfig config;
  config.name = "attend_latent";
  config.block.x = kLatentWarps * kWarp;
  config.shared_bytes =
      shared_bytes<kLatentRow>(1) + 16 * kScoreStride * static_cast<uint32_t>(sizeof(float));
  config.stream = stream;
  const auto chains = attend_latent<kLatentRow, kLatentValues>;
  const int attended = launch_tiles(config, shape.tiles, chains, views.chains, shape);
  if (attended != 0) return attended;
  config.name = "attend_latent_tree";
  const auto trees = attend_latent_tree<kLatentRow, kLatentValues>;
  return launch_tiles(config, shape.tree_tiles, trees, views.trees, shape);
}

int attend_with_tiles(void* stream, const TileViews& a, const AttentionShape& shape) {
  if (is_latent(shape)) return attend_latent_bf16(stream, a, shape);
  switch (shape.cache.head_dim) {
    case 64:
      return attend<64>(stream, a, shape);
    case 80:
      return attend<80>(stream, a, shape);
    case 96:
      return attend<96>(stream, a, shape);
    case 128:
      return attend<128>(stream, a, shape);
    default:
      return attend<256>(stream, a, shape);
  }
}

template <typename Rows, int dim>
int attend_rows(void* stream, const AttentionView& a, const Rows& k, const Rows& v,
                const AttentionArrays& arrays, const AttentionShape& shape) {
  LaunchConfig config;
  config.name = "attend_plain";
  config.grid = {shape.rows * static_cast<uint32_t>(shape.heads), shape.splits, 1};
  config.block.x = kWarp;
  config.stream = stream;
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
  if (has_tiles(shape)) return attend_with_tiles(stream, {arrays, shape}, shape);
  if (is_quantised(shape.cache.type)) return attend_quantised_rows(stream, a, arrays, shape);
  if (shape.cache.type == CacheType::bf16) {
    return attend_plain_rows<BFloat16>(stream, a, arrays, shape);
  }
  return attend_plain_rows<float>(stream, a, arrays, shape);
}

}  // namespace

int launch_attention(void* stream, const AttentionArrays& arrays, const AttentionShape& shape) {
  const AttentionView a = view(arrays, shape);
  const int attended = attend(stream, a, arrays, shape);
  if (attended != 0) return attended;
  LaunchConfig config;
  config.name = "combine_splits";
  config.grid.x = shape.rows * static_cast<uint32_t>(shape.heads);
  config.block.x = kRowThreads;
  config.stream = stream;
  const Global<const float> sinks(arrays.sinks);
  if (shape.out_type == Input::f32) {
    return launch(config, combine_splits<float>, a, sinks, static_cast<float*>(arrays.out),
                  shape.out_stride, shape.out_head_stride);
  }
  return launch(config, combine_splits<BFloat16>, a, sinks, static_cast<BFloat16*>(arrays.out),
                shape.out_stride, shape.out_head_stride);
}

}  // namespace tenon::cuda
