// Operations on the rows of a step that no product hides: embedding, norms, activations. Each sum's
// order follows from the width alone, so a row's bits depend on no other row.
#pragma once

#include <tenon/cuda/machine.h>

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

// Rows of `width` numbers, `heads` of them side by side; row r has the weights r % weight_rows. out
// = norm(x) · weight + bias, or out += factor · that.
template <typename T>
__global__ void norm_kernel(Global<const float> x, Global<const float> weight,
                            Global<const float> bias, Global<T> out, NormShape shape) {
  SharedArena arena;
  Shared<float> sums = arena.take<float>(kRowThreads / 32);
  const int64_t outer = blockIdx.x / shape.heads;
  const int64_t inner = static_cast<int64_t>(blockIdx.x % shape.heads) * shape.width;
  const int64_t from = outer * (shape.x_stride == 0 ? shape.width : shape.x_stride) + inner;
  const int64_t to = outer * shape.out_stride + inner;
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

// out = activation(gate) · up, or activation(up) without a gate. Grid: rows · parts of a row, of
// kGateElements.
inline constexpr int kGateElements = 4 * kRowThreads;
template <typename T>
__global__ void gate_kernel(Global<const float> gate, Global<const float> up, Global<T> out,
                            int width, int in_stride, int out_stride, ActivationKind kind,
                            SwigluLimit limited) {
  const uint32_t parts = static_cast<uint32_t>((width + kGateElements - 1) / kGateElements);
  const int64_t row = blockIdx.x / parts;
  const int first = static_cast<int>(blockIdx.x % parts) * kGateElements;
  const int end = first + kGateElements < width ? first + kGateElements : width;
  for (int i = first + static_cast<int>(threadIdx.x); i < end; i += kRowThreads) {
    const float u = up[row * in_stride + i];
    float y;
    if (limited.limit > 0.0f) {
      y = limited_swiglu(limited, gate[row * in_stride + i], u);
    } else {
      y = gate ? activate(kind, gate[row * in_stride + i]) * u : activate(kind, u);
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

}  // namespace tenon::cuda
