#include <bit>

#include "core/exec/cuda/kernels/head_kernels.cuh"
#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/row_kernels.cuh"

namespace tenon::cuda {
namespace {

LaunchConfig rows_config(const char* name, uint64_t blocks, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = static_cast<uint32_t>(blocks);
  config.block.x = kRowThreads;
  return config;
}

// For kernels that move kMovedElements of a row with a block.
LaunchConfig moving_config(const char* name, uint32_t rows, int width, void* stream) {
  LaunchConfig config = rows_config(name, rows, stream);
  config.grid.y = static_cast<uint32_t>((width + kMovedElements - 1) / kMovedElements);
  return config;
}

template <typename T>
int embed(void* stream, const EmbedCall& c) {
  const T* table = static_cast<const T*>(c.table);
  const T* position_table = static_cast<const T*>(c.position_table);
  const bool whole = in_quads(c.hidden, c.width) && in_quads(table, c.stride) &&
                     in_quads(position_table, c.position_stride);
  return launch(moving_config("embed", c.rows, c.width, stream), embed_kernel<T>, c.tokens,
                c.positions, table, position_table, c.hidden, c.width, c.stride, c.position_stride,
                c.scale, whole, TokenRange{c.first_token, c.end_token});
}

template <typename Codes>
int embed_quant(void* stream, const EmbedCall& c) {
  EmbedTable table;
  table.codes = Global<const uint8_t>(static_cast<const uint8_t*>(c.table));
  table.scales = CodeScales(c.quant);
  table.zeros = Global<const uint8_t>(c.quant.zeros);
  table.stride = c.stride;
  table.group = c.quant.group;
  table.rows = c.quant.rows;
  const BFloat16* position_table = static_cast<const BFloat16*>(c.position_table);
  const bool whole = in_quads(c.hidden, c.width) && in_quads(position_table, c.position_stride);
  return launch(moving_config("embed_quant", c.rows, c.width, stream), embed_quant_kernel<Codes>,
                c.tokens, c.positions, table, position_table, c.hidden, c.width, c.position_stride,
                c.scale, whole, TokenRange{c.first_token, c.end_token});
}

template <typename T>
int norm(void* stream, const float* x, const float* weight, const float* bias, T* out,
         const NormShape& shape) {
  const NormTeam team = norm_team(shape.width);
  const uint32_t block_rows = team.threads == static_cast<int>(kWarp) ? kNormWarps : 1;
  LaunchConfig config = rows_config("norm", (shape.rows + block_rows - 1) / block_rows, stream);
  config.block.x = static_cast<uint32_t>(team.threads) * block_rows;
  config.shared_bytes = 2 * kWarp * sizeof(float);
  const bool whole = norm_aligned(shape) && in_quads(x, 0) && in_quads(out, 0) &&
                     in_quads(weight, 0) && in_quads(bias, 0);
  const auto put = [&](auto kernel) {
    return launch(config, kernel, x, weight, bias, out, shape, team.threads, whole);
  };
  switch (whole ? team.kept : 0) {
    case 1:
      return put(norm_kernel<T, 1>);
    case 2:
      return put(norm_kernel<T, 2>);
    case 4:
      return put(norm_kernel<T, 4>);
    default:
      return put(norm_kernel<T, 0>);
  }
}

template <typename T>
int take_rows(void* stream, const float* from, const uint32_t* rows, T* to, uint32_t count,
              int width, int to_stride, int from_stride) {
  const bool whole = width % 4 == 0 && in_quads(from, from_stride) && in_quads(to, to_stride);
  return launch(moving_config("take_rows", count, width, stream), take_rows_kernel<T>, from, rows,
                to, width, to_stride, from_stride, whole);
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
  view.threads_log = std::countr_zero(static_cast<uint32_t>(head_threads(c)));
  const auto threads = static_cast<uint32_t>(view.parts) << view.threads_log;
  view.blocks_of_row = (threads + kRowThreads - 1) / kRowThreads;
  return view;
}

}  // namespace

int launch_embed(void* stream, const EmbedCall& call) {
  if (call.quant.bits != 0) {
    return with_codes(call.quant,
                      [&]<typename Codes>(Codes) { return embed_quant<Codes>(stream, call); });
  }
  return call.weights == Input::bf16 ? embed<BFloat16>(stream, call) : embed<float>(stream, call);
}

int launch_norm(void* stream, const float* x, const float* weight, const float* bias, void* out,
                Input out_type, const NormShape& shape) {
  return out_type == Input::f32 ? norm(stream, x, weight, bias, static_cast<float*>(out), shape)
                                : norm(stream, x, weight, bias, static_cast<BFloat16*>(out), shape);
}

int launch_gate(void* stream, const float* gate, const float* up, void* out, Input out_type,
                uint32_t rows, int width, int in_stride, int out_stride, ActivationKind kind,
                SwigluLimit limited) {
  const uint64_t parts = static_cast<uint64_t>((width + kGateElements - 1) / kGateElements);
  const auto put = [&]<typename T>(T* to) {
    const bool whole = width % 4 == 0 && in_quads(gate, in_stride) && in_quads(up, in_stride) &&
                       in_quads(to, out_stride);
    return launch(rows_config("gate", rows * parts, stream), gate_kernel<T>, gate, up, to, width,
                  in_stride, out_stride, kind, limited, whole);
  };
  return out_type == Input::f32 ? put(static_cast<float*>(out)) : put(static_cast<BFloat16*>(out));
}

int launch_open(void* stream, const float* gate, void* out, Input out_type, uint32_t rows,
                int width, int gate_stride, int out_stride) {
  const uint64_t parts = static_cast<uint64_t>((width + kGateElements - 1) / kGateElements);
  const auto put = [&]<typename T>(T* to) {
    const bool whole = width % 4 == 0 && in_quads(gate, gate_stride) && in_quads(to, out_stride);
    return launch(rows_config("open", rows * parts, stream), open_kernel<T>, gate, to, width,
                  gate_stride, out_stride, whole);
  };
  return out_type == Input::f32 ? put(static_cast<float*>(out)) : put(static_cast<BFloat16*>(out));
}

int launch_take_rows(void* stream, const float* from, const uint32_t* rows, void* to, Input to_type,
                     uint32_t count, int width, int to_stride, int from_stride) {
  if (from_stride == 0) from_stride = width;
  return to_type == Input::f32 ? take_rows(stream, from, rows, static_cast<float*>(to), count,
                                           width, to_stride, from_stride)
                               : take_rows(stream, from, rows, static_cast<BFloat16*>(to), count,
                                           width, to_stride, from_stride);
}

int launch_adjust(void* stream, float* x, uint64_t count, float scale, float cap, float limit) {
  const uint64_t blocks = (count + kRowThreads - 1) / kRowThreads;
  return launch(rows_config("adjust", blocks, stream), adjust_kernel, x, count, scale, cap, limit);
}

int launch_place_heads(void* stream, const HeadsCall& call) {
  const HeadsView view = heads_view(call);
  const uint64_t blocks = uint64_t{call.rows} * view.blocks_of_row;
  if (blocks == 0) return 0;
  const LaunchConfig config = rows_config("place_heads", blocks, stream);
  const CacheShape& cache = call.cache;
  if (is_quantised(cache.type)) {
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
