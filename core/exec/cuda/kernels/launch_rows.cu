#include "core/exec/cuda/kernels/head_kernels.cuh"
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

HeadsView heads_view(const HeadsCall& c) {
  HeadsView view;
  view.q = Global<float>(c.q);
  view.k = Global<const float>(c.k);
  view.v = Global<const float>(c.v);
  view.angles = Global<const float>(c.angles);
  view.blocks = Global<const uint32_t>(c.blocks);
  view.offsets = Global<const uint32_t>(c.offsets);
  view.cache = c.cache;
  view.q_stride = c.q_stride;
  view.q_heads = c.angles != nullptr && c.q != nullptr ? c.q_heads : 0;
  view.q_dim = c.q_dim;
  view.kv_stride = c.kv_stride;
  view.k_first = c.k_first;
  view.half = c.half;
  view.pairs = c.pairs;
  view.parts = view.q_heads + c.cache.kv_heads * ((c.k != nullptr) + (c.v != nullptr));
  return view;
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

int launch_gate(void* stream, const float* gate, const float* up, void* out, Input out_type,
                uint32_t rows, int width, int in_stride, int out_stride, ActivationKind kind,
                SwigluLimit limited) {
  const uint64_t parts = static_cast<uint64_t>((width + kGateElements - 1) / kGateElements);
  const LaunchConfig config = rows_config("gate", rows * parts, stream);
  if (out_type == Input::f32) {
    return launch(config, gate_kernel<float>, gate, up, static_cast<float*>(out), width, in_stride,
                  out_stride, kind, limited);
  }
  return launch(config, gate_kernel<BFloat16>, gate, up, static_cast<BFloat16*>(out), width,
                in_stride, out_stride, kind, limited);
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

int launch_place_heads(void* stream, const HeadsCall& call) {
  const HeadsView view = heads_view(call);
  const uint64_t blocks = uint64_t{call.rows} * static_cast<uint32_t>(view.parts);
  if (blocks == 0) return 0;
  LaunchConfig config = rows_config("place_heads", blocks, stream);
  const CacheShape& cache = call.cache;
  if (is_quantised(cache.type)) {
    config.block.x = kWarp;
    return launch(config, place_quantised_kernel, view, static_cast<uint8_t*>(call.k_cache),
                  static_cast<uint8_t*>(call.v_cache), cache_row_bytes(cache.type, cache.head_dim),
                  cache_scale_at(cache.type, cache.head_dim));
  }
  if (cache.type == CacheType::f32) {
    return launch(config, place_heads_kernel<float>, view, static_cast<float*>(call.k_cache),
                  static_cast<float*>(call.v_cache));
  }
  return launch(config, place_heads_kernel<BFloat16>, view, static_cast<BFloat16*>(call.k_cache),
                static_cast<BFloat16*>(call.v_cache));
}

}  // namespace tenon::cuda
