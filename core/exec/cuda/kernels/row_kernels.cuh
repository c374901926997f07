// Operations on the rows of a step that no product hides: embedding, norms, rotation, activations,
// the way into the cache. Each sum's order follows from the width alone, so a row's bits depend on
// no other row.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/cache_rows.cuh"
#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/cuda/kernels/row_functions.cuh"

namespace tenon::cuda {

// hidden [rows, width] = table[token] · scale, and the vector of the position where there are any.
template <typename T>
__global__ void embed_kernel(Global<const int32_t> tokens, Global<const uint32_t> positions,
                             Global<const T> table, Global<const T> position_table,
                             Global<float> hidden, int width, int stride, int position_stride,
                             float scale) {
  const int64_t row = blockIdx.x;
  const int64_t token = tokens[row];
  const int64_t position = position_table ? static_cast<int64_t>(uint32_t{positions[row]}) : 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kRowThreads) {
    float x = get(table, token * stride + i) * scale;
    if (position_table) x += get(position_table, position * position_stride + i);
    hidden[row * width + i] = x;
  }
}

// The same from a table of integers with scales.
struct EmbedTable {
  Global<const uint8_t> codes;
  Global<const Half> scales;
  Global<const uint8_t> zeros;
  int stride, groups, group;
};

template <int bits>
TENON_DEVICE float table_element(const EmbedTable& table, int64_t row, int i) {
  const int64_t own = row * table.groups + i / table.group;
  const Half scale = table.scales[own];
  int code, zero = bits == 4 ? 8 : 0;
  if (bits == 4) {
    const int place = quant_place(i, 4);
    code = uint8_t{table.codes[row * table.stride + place / 2]} >> (place % 2 * 4) & 15;
    if (table.zeros) zero = uint8_t{table.zeros[own]};
  } else {
    code = static_cast<int8_t>(uint8_t{table.codes[row * table.stride + quant_place(i, 8)]});
    if (table.zeros) zero = static_cast<int8_t>(uint8_t{table.zeros[own]});
  }
  return static_cast<float>(code - zero) * to_float(scale);
}

template <int bits>
__global__ void embed_quant_kernel(Global<const int32_t> tokens, Global<const uint32_t> positions,
                                   EmbedTable table, Global<const BFloat16> position_table,
                                   Global<float> hidden, int width, int position_stride,
                                   float scale) {
  const int64_t row = blockIdx.x;
  const int64_t token = tokens[row];
  const int64_t position = position_table ? static_cast<int64_t>(uint32_t{positions[row]}) : 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kRowThreads) {
    float x = table_element<bits>(table, token, i) * scale;
    if (position_table) x += get(position_table, position * position_stride + i);
    hidden[row * width + i] = x;
  }
}

// Rows of `width` numbers; row r has the weights r % weight_rows. out = norm(x) · weight + bias,
// or out += factor · that.
template <typename T>
__global__ void norm_kernel(Global<const float> x, Global<const float> weight,
                            Global<const float> bias, Global<T> out, NormShape shape) {
  SharedArena arena;
  Shared<float> sums = arena.take<float>(kRowThreads / 32);
  const int64_t from =
      static_cast<int64_t>(blockIdx.x) * (shape.x_stride == 0 ? shape.width : shape.x_stride);
  const int64_t to = static_cast<int64_t>(blockIdx.x) * shape.out_stride;
  const int64_t own = static_cast<int64_t>(blockIdx.x % shape.weight_rows) * shape.width;
  const int first = static_cast<int>(threadIdx.x);
  const float count = static_cast<float>(shape.width);
  float mean = 0.0f;
  if (shape.centered) {
    float sum = 0.0f;
    for (int i = first; i < shape.width; i += kRowThreads) sum += x[from + i];
    mean = block_sum(sum, sums) / count;
  }
  float squares = 0.0f;
  for (int i = first; i < shape.width; i += kRowThreads) {
    const float away = x[from + i] - mean;
    squares = fmaf(away, away, squares);
  }
  const float size = sqrtf(block_sum(squares, sums) / count + shape.eps);
  for (int i = first; i < shape.width; i += kRowThreads) {
    float y = (x[from + i] - mean) / size;
    if (weight) y *= weight[own + i];
    if (bias) y += bias[own + i];
    if (shape.add) {
      y *= shape.factor;
      y += get(Global<const T>(out), to + i);
    }
    put(out, to + i, y);
  }
}

// Turns the first 2 · half elements of each head: angles are [rows, cosines and sines, half].
__global__ void rotate_kernel(Global<float> heads, Global<const float> angles, int head_count,
                              int head_dim, int half, bool pairs) {
  const int64_t row = blockIdx.x / static_cast<uint32_t>(head_count);
  const Global<float> head = heads + static_cast<int64_t>(blockIdx.x) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kRowThreads) {
    const float cosine = angles[row * 2 * half + i];
    const float sine = angles[row * 2 * half + half + i];
    const int low = pairs ? 2 * i : i;
    const int high = pairs ? 2 * i + 1 : i + half;
    const float a = head[low];
    const float b = head[high];
    head[low] = a * cosine - b * sine;
    head[high] = b * cosine + a * sine;
  }
}

// out = activation(gate) · up, or activation(up) without a gate.
template <typename T>
__global__ void gate_kernel(Global<const float> gate, Global<const float> up, Global<T> out,
                            int width, int out_stride, ActivationKind kind, SwigluLimit limited) {
  const int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kRowThreads) {
    const float u = up[row * width + i];
    float y;
    if (limited.limit > 0.0f) {
      y = limited_swiglu(limited, gate[row * width + i], u);
    } else {
      y = gate ? activate(kind, gate[row * width + i]) * u : activate(kind, u);
    }
    put(out, row * out_stride + i, y);
  }
}

// Rows of f32 into rows of a product's input, each from where `rows` says.
template <typename T>
__global__ void take_rows_kernel(Global<const float> from, Global<const uint32_t> rows,
                                 Global<T> to, int width, int to_stride, int from_stride) {
  const int64_t row =
      rows ? static_cast<int64_t>(uint32_t{rows[blockIdx.x]}) : static_cast<int64_t>(blockIdx.x);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kRowThreads) {
    put(to, static_cast<int64_t>(blockIdx.x) * to_stride + i, from[row * from_stride + i]);
  }
}

// x = cap · tanh(scale · x / cap), or scale · x; then held within ± limit where there is one.
__global__ void adjust_kernel(Global<float> x, uint64_t count, float scale, float cap,
                              float limit) {
  const uint64_t i = uint64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (i >= count) return;
  float y = scale * x[static_cast<int64_t>(i)];
  if (cap > 0.0f) y = cap * tanhf(y / cap);
  if (limit > 0.0f) y = fminf(fmaxf(y, -limit), limit);
  x[static_cast<int64_t>(i)] = y;
}

// K and V of a step's rows to their places: [block][head][token][element].
template <typename T>
__global__ void store_kernel(Global<const float> from, Global<const uint32_t> blocks,
                             Global<const uint32_t> offsets, Global<T> cache, int kv_heads,
                             int head_dim, int block_tokens) {
  const int64_t row = blockIdx.x / static_cast<uint32_t>(kv_heads);
  const int64_t head = blockIdx.x % static_cast<uint32_t>(kv_heads);
  const int64_t block = uint32_t{blocks[row]};
  const int64_t offset = uint32_t{offsets[row]};
  const int64_t to = ((block * kv_heads + head) * block_tokens + offset) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += kRowThreads) {
    put(cache, to + i, from[(row * kv_heads + head) * head_dim + i]);
  }
}

// K or V of a step's rows to their places: a warp a row. Grid: rows · kv_heads.
__global__ void store_quantised_kernel(Global<const float> from, Global<const uint32_t> blocks,
                                       Global<const uint32_t> offsets, Global<uint8_t> cache,
                                       CacheShape shape, int row_bytes, int scale_at) {
  const int lane = static_cast<int>(threadIdx.x);
  const int dim = shape.head_dim;
  const int64_t row = blockIdx.x / static_cast<uint32_t>(shape.kv_heads);
  const int64_t head = blockIdx.x % static_cast<uint32_t>(shape.kv_heads);
  const int64_t block = uint32_t{blocks[row]};
  const int64_t offset = uint32_t{offsets[row]};
  const int64_t place = (block * shape.kv_heads + head) * shape.block_tokens + offset;
  const Global<uint8_t> to = cache + place * row_bytes;
  const Global<const float> x = from + static_cast<int64_t>(blockIdx.x) * dim;
  float least = INFINITY, most = -INFINITY;
  bool finite = true;
  for (int i = lane; i < dim; i += 32) {
    const float own = x[i];
    finite = finite && is_finite(own);
    least = fminf(least, own);
    most = fmaxf(most, own);
  }
  finite = __all_sync(kAllLanes, finite);
  for (int with = 16; with > 0; with /= 2) {
    least = fminf(least, __shfl_xor_sync(kAllLanes, least, with));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, with));
  }
  const bool bytes = shape.type == CacheType::i8;
  BFloat16 low = {0};
  if (!bytes) low = bfloat16_below(least);
  BFloat16 scale = to_bfloat16(bytes ? (-least < most ? most : -least) / 127.0f
                                     : (most - to_float(low)) / 15.0f);
  if (!finite || !is_finite(to_float(scale)) || !is_finite(to_float(low))) {
    scale = to_bfloat16(NAN);
    low = {0};
  }
  const float s = to_float(scale);
  const float l = to_float(low);
  for (int i = lane; i < scale_at; i += 32) {
    if (bytes) {
      to[i] = i < dim ? quantised(x[i], s, 0.0f, -127.0f, 127.0f) : uint8_t{0};
      continue;
    }
    const int first = 2 * i < dim ? quantised(x[2 * i], s, l, 0.0f, 15.0f) : 0;
    const int second = 2 * i + 1 < dim ? quantised(x[2 * i + 1], s, l, 0.0f, 15.0f) : 0;
    to[i] = static_cast<uint8_t>(first | second << 4);
  }
  if (lane != 0) return;
  put_bf16(to + scale_at, scale);
  if (!bytes) put_bf16(to + (scale_at + 2), low);
}

}  // namespace tenon::cuda
