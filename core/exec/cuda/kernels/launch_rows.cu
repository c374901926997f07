#include "core/exec/cuda/kernels/row_kernels.cuh"

namespace tenon::cuda {
namespace {

LaunchConfig rows_config(const char* name, uint64_t blocks, void* stream) {
  LaunchConfig config;
  config.name = name;
  config.grid.x = static_cast<uint32_t>(blocks);
  config.block.x = kRowThreads;
  config.stream = stream;
  return config;
}

template <typename T>
int embed(void* stream, const EmbedCall& c) {
  return launch(rows_config("embed", c.rows, stream), embed_kernel<T>, c.tokens, c.positions,
                static_cast<const T*>(c.table), static_cast<const T*>(c.position_table), c.hidden,
                c.width, c.stride, c.position_stride, c.scale);
}

template <int bits>
int embed_quant(void* stream, const EmbedCall& c) {
  EmbedTable table;
  table.codes = Global<const uint8_t>(static_cast<const uint8_t*>(c.table));
  table.scales = Global<const Half>(reinterpret_cast<const Half*>(c.quant.scales));
  table.zeros = Global<const uint8_t>(c.quant.zeros);
  table.stride = c.stride;
  table.groups = c.quant.groups;
  table.group = c.quant.group;
  return launch(rows_config("embed_quant", c.rows, stream), embed_quant_kernel<bits>, c.tokens,
                c.positions, table, static_cast<const BFloat16*>(c.position_table), c.hidden,
                c.width, c.position_stride, c.scale);
}

}  // namespace

int launch_embed(void* stream, const EmbedCall& call) {
  if (call.quant.bits == 8) return embed_quant<8>(stream, call);
  if (call.quant.bits == 4) return embed_quant<4>(stream, call);
  return call.weights == Input::bf16 ? embed<BFloat16>(stream, call) : embed<float>(stream, call);
}

int launch_norm(void* stream, const float* x, const float* weight, const float* bias, void* out,
                Input out_type, const NormShape& shape) {
  LaunchConfig config = rows_config("norm", shape.rows, stream);
  config.shared_bytes = kRowThreads / 32 * sizeof(float);
  if (out_type == Input::f32) {
    return launch(config, norm_kernel<float>, x, weight, bias, static_cast<float*>(out), shape);
  }
  return launch(config, norm_kernel<BFloat16>, x, weight, bias, static_cast<BFloat16*>(out), shape);
}

int launch_rotate(void* stream, float* heads, const float* angles, uint32_t rows, int head_count,
                  int head_dim, int half, bool pairs) {
  const uint64_t blocks = uint64_t{rows} * static_cast<uint32_t>(head_count);
  return launch(rows_config("rotate", blocks, stream), rotate_kernel, heads, angles, head_count,
                head_dim, half, pairs);
}

int launch_gate(void* stream, const float* gate, const float* up, void* out, Input out_type,
                uint32_t rows, int width, int out_stride, ActivationKind kind,
                SwigluLimit limited) {
  const LaunchConfig config = rows_config("gate", rows, stream);
  if (out_type == Input::f32) {
    return launch(config, gate_kernel<float>, gate, up, static_cast<float*>(out), width, out_stride,
                  kind, limited);
  }
  return launch(config, gate_kernel<BFloat16>, gate, up, static_cast<BFloat16*>(out), width,
                out_stride, kind, limited);
}

int launch_take_rows(void* stream, const float* from, const uint32_t* rows, void* to, Input to_type,
                     uint32_t count, int width, int to_stride, int from_stride) {
  const LaunchConfig config = rows_config("take_rows", count, stream);
  if (from_stride == 0) from_stride = width;
  if (to_type == Input::f32) {
    return launch(config, take_rows_kernel<float>, from, rows, static_cast<float*>(to), width,
                  to_stride, from_stride);
  }
  return launch(config, take_rows_kernel<BFloat16>, from, rows, static_cast<BFloat16*>(to), width,
                to_stride, from_stride);
}

int launch_adjust(void* stream, float* x, uint64_t count, float scale, float cap, float limit) {
  const uint64_t blocks = (count + kRowThreads - 1) / kRowThreads;
  return launch(rows_config("adjust", blocks, stream), adjust_kernel, x, count, scale, cap, limit);
}

int launch_store(void* stream, const float* from, const uint32_t* blocks, const uint32_t* offsets,
                 void* cache, uint32_t rows, const CacheShape& shape) {
  const uint64_t count = uint64_t{rows} * static_cast<uint32_t>(shape.kv_heads);
  LaunchConfig config = rows_config("store", count, stream);
  if (is_quantised(shape.type)) {
    config.block.x = kWarp;
    return launch(config, store_quantised_kernel, from, blocks, offsets,
                  static_cast<uint8_t*>(cache), shape, cache_row_bytes(shape.type, shape.head_dim),
                  cache_scale_at(shape.type, shape.head_dim));
  }
  if (shape.type == CacheType::f32) {
    return launch(config, store_kernel<float>, from, blocks, offsets, static_cast<float*>(cache),
                  shape.kv_heads, shape.head_dim, shape.block_tokens);
  }
  return launch(config, store_kernel<BFloat16>, from, blocks, offsets,
                static_cast<BFloat16*>(cache), shape.kv_heads, shape.head_dim, shape.block_tokens);
}

}  // namespace tenon::cuda
