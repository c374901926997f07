#include "core/exec/cuda/kernels/attention.cuh"

namespace tenon::cuda {
namespace {

bool has_tiles(const CacheShape& cache) {
  const int dim = cache.head_dim;
  return cache.type == Input::bf16 &&
         (dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256);
}

AttentionView view(const AttentionArrays& arrays, const AttentionShape& shape) {
  AttentionView a;
  a.q = Global<const float>(arrays.q);
  if (has_tiles(shape.cache)) {
    a.k = Global<const BFloat16>(static_cast<const BFloat16*>(arrays.k));
    a.v = Global<const BFloat16>(static_cast<const BFloat16*>(arrays.v));
  }
  a.sequences = Global<const uint32_t>(reinterpret_cast<const uint32_t*>(arrays.sequences));
  a.tiles = Global<const uint32_t>(reinterpret_cast<const uint32_t*>(arrays.tiles));
  a.slots = Global<const uint32_t>(arrays.slots);
  a.tables = Global<const int32_t>(arrays.tables);
  a.partial = Global<float>(arrays.partial);
  a.sums = Global<float>(arrays.sums);
  a.heads = shape.heads;
  a.kv_heads = shape.cache.kv_heads;
  a.head_dim = shape.cache.head_dim;
  a.block_tokens = shape.cache.block_tokens;
  a.rows = shape.rows;
  a.window = shape.window;
  a.scale = shape.scale;
  a.cap = shape.cap;
  return a;
}

template <int head_dim, int warps>
int attend(void* stream, const AttentionView& a, const AttentionShape& shape) {
  LaunchConfig config;
  config.name = "attend_tiles";
  config.grid = {shape.tiles, static_cast<uint32_t>(shape.cache.kv_heads), shape.splits};
  config.block.x = warps * 32;
  config.shared_bytes = (16 * warps + 2 * kEntries) * AttentionTileShape<head_dim>::kStride * 2;
  config.stream = stream;
  return launch(config, attend_tiles<head_dim, warps>, a);
}

template <int head_dim>
int attend(void* stream, const AttentionView& a, const AttentionShape& shape) {
  return shape.warps == 1 ? attend<head_dim, 1>(stream, a, shape)
                          : attend<head_dim, 4>(stream, a, shape);
}

int attend_bf16(void* stream, const AttentionView& a, const AttentionShape& shape) {
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

template <typename T>
int attend_rows(void* stream, const AttentionView& a, const AttentionArrays& arrays,
                const AttentionShape& shape) {
  LaunchConfig config;
  config.name = "attend_plain";
  config.grid = {shape.rows * static_cast<uint32_t>(shape.heads), shape.splits, 1};
  config.block.x = kWarp;
  config.stream = stream;
  return launch(config, attend_plain<T>, a, static_cast<const T*>(arrays.k),
                static_cast<const T*>(arrays.v), arrays.row_sequence);
}

int attend(void* stream, const AttentionView& a, const AttentionArrays& arrays,
           const AttentionShape& shape) {
  if (has_tiles(shape.cache)) return attend_bf16(stream, a, shape);
  if (shape.cache.type == Input::bf16) return attend_rows<BFloat16>(stream, a, arrays, shape);
  return attend_rows<float>(stream, a, arrays, shape);
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
                  shape.out_stride);
  }
  return launch(config, combine_splits<BFloat16>, a, sinks, static_cast<BFloat16*>(arrays.out),
                shape.out_stride);
}

}  // namespace tenon::cuda
