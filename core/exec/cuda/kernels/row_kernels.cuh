// Operations on the rows of a step that no product hides: embedding, norms, activations. Each sum's
// order follows from the width alone, so a row's bits depend on no other row.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/cuda/kernels/quant_codes.cuh"
#include "core/exec/cuda/kernels/row_functions.cuh"

namespace tenon::cuda {

// A thread of a kernel that only moves rows has so many quads; blockIdx.y is the part of the row.
inline constexpr int kMovedQuads = 2;
inline constexpr int kMovedElements = 4 * kMovedQuads * kRowThreads;

TENON_DEVICE int first_moved_quad() {
  return static_cast<int>(blockIdx.y) * kMovedQuads * kRowThreads + static_cast<int>(threadIdx.x);
}

// The tokens of a table; `end` 0: all of them.
struct TokenRange {
  uint32_t first, end;
  // Where a token stands in the table; -1: in another one.
  TENON_DEVICE int64_t place(int32_t token) const {
    const auto number = static_cast<uint32_t>(token);
    if (end == 0) return token;
    return number < first || number >= end ? -1 : static_cast<int64_t>(number - first);
  }
};

// hidden [rows, width] = table[token] · scale, and the vector of the position where there are any.
// `whole`: see load_quad.
template <typename T>
__global__ void embed_kernel(Global<const int32_t> tokens, Global<const uint32_t> positions,
                             Global<const T> table, Global<const T> position_table,
                             Global<float> hidden, int width, int stride, int position_stride,
                             float scale, bool whole, TokenRange range) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int64_t token = range.place(tokens[row]);
  if (token < 0) return;
  const int64_t position = position_table ? static_cast<int64_t>(uint32_t{positions[row]}) : 0;
  const int first = first_moved_quad();
  Quad x[kMovedQuads];
  TENON_UNROLL for (int k = 0; k < kMovedQuads; ++k) {
    x[k] = load_quad(table + token * stride, first + k * kRowThreads, width, whole);
  }
  TENON_UNROLL for (int k = 0; k < kMovedQuads; ++k) {
    const int quad = first + k * kRowThreads;
    TENON_UNROLL for (int e = 0; e < 4; ++e) x[k][e] *= scale;
    if (position_table) {
      const Quad more = load_quad(position_table + position * position_stride, quad, width, whole);
      TENON_UNROLL for (int e = 0; e < 4; ++e) x[k][e] += more[e];
    }
    store_quad(hidden + row * width, quad, width, whole, x[k]);
  }
}

// The same from a table of codes with scales.
struct EmbedTable {
  Global<const uint8_t> codes;
  CodeScales scales;
  Global<const uint8_t> zeros;
  int stride, group, rows;
};

// A number in E4M3.
TENON_DEVICE float float_of_8_bits(uint8_t code) {
  const uint32_t byte = code;
  return bits_float((byte & 0x80u) << 24 | (byte & 0x7fu) << 20) * 0x1p120f;
}

// Groups are multiples of 32, so a quad lies in one.
template <typename Codes>
TENON_DEVICE Quad table_quad(const EmbedTable& table, int64_t row, int quad, int width) {
  Quad x = {};
  if (4 * quad >= width) return x;
  const int64_t own = static_cast<int64_t>(4 * quad / table.group) * table.rows + row;
  constexpr int kBits = Codes::kBits;
  const float scale = table.scales.at<Codes>(own);
  int zero = kBits == 4 ? 8 : 0;
  if (table.zeros) {
    const uint8_t stored = table.zeros[own];
    zero = kBits == 4 ? stored : static_cast<int8_t>(stored);
  }
  TENON_UNROLL for (int e = 0; e < 4; ++e) {
    if (4 * quad + e >= width) break;
    const int place = quant_place(4 * quad + e, kBits);
    const uint8_t stored = table.codes[row * table.stride + place * kBits / 8];
    const int code = kBits == 4 ? stored >> (place % 2 * 4) & 15 : static_cast<int8_t>(stored);
    x[e] = (Codes::kFloats ? float_of_8_bits(stored) : static_cast<float>(code - zero)) * scale;
  }
  return x;
}

template <typename Codes>
__global__ void embed_quant_kernel(Global<const int32_t> tokens, Global<const uint32_t> positions,
                                   EmbedTable table, Global<const BFloat16> position_table,
                                   Global<float> hidden, int width, int position_stride,
                                   float scale, bool whole, TokenRange range) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int64_t token = range.place(tokens[row]);
  if (token < 0) return;
  const int64_t position = position_table ? static_cast<int64_t>(uint32_t{positions[row]}) : 0;
  TENON_UNROLL for (int k = 0; k < kMovedQuads; ++k) {
    const int quad = first_moved_quad() + k * kRowThreads;
    Quad x = table_quad<Codes>(table, token, quad, width);
    TENON_UNROLL for (int e = 0; e < 4; ++e) x[e] *= scale;
    if (position_table) {
      const Quad more = load_quad(position_table + position * position_stride, quad, width, whole);
      TENON_UNROLL for (int e = 0; e < 4; ++e) x[e] += more[e];
    }
    store_quad(hidden + row * width, quad, width, whole, x);
  }
}

// A thread's part of a row: the quads first, first + threads … `kept` of them stay in registers,
// where rows are whole; with none kept each pass loads them again, whole or not.
template <int kept>
struct NormQuads {
  Quad own[kept > 0 ? kept : 1];
  TENON_DEVICE NormQuads(Global<const float> row, int first, int threads, int width) {
    TENON_UNROLL for (int k = 0; k < kept; ++k) {
      own[k] = load_quad(row, first + k * threads, width, true);
    }
  }
  TENON_DEVICE Quad get(Global<const float> row, int k, int quad, int width, bool whole) const {
    return kept > 0 ? own[k] : load_quad(row, quad, width, whole);
  }
};

// Rows of `width` numbers, `heads` of them side by side; row r has the weights r % weight_rows. out
// = norm(x) · weight + bias, or out += factor · that. A row has `threads`, which are a block or one
// of its warps.
template <typename T, int kept>
__global__ void __launch_bounds__(kMaxNormThreads)
    norm_kernel(Global<const float> x, Global<const float> weight, Global<const float> bias,
                Global<T> out, NormShape shape, int threads, bool rows_whole) {
  const bool whole = kept > 0 || rows_whole;
  SharedArena arena;
  const Shared<float> sums = arena.take<float>(2 * kWarp);
  const bool by_warp = threads == static_cast<int>(kWarp);
  const uint32_t row = by_warp ? blockIdx.x * kNormWarps + threadIdx.x / kWarp : blockIdx.x;
  const int first = static_cast<int>(by_warp ? threadIdx.x % kWarp : threadIdx.x);
  const int width = shape.width;
  const int64_t outer = shape.heads == 1 ? row : row / shape.heads;
  const int64_t inner = (row - outer * shape.heads) * width;
  const int64_t own_weight = shape.weight_rows == 1 ? 0 : row % shape.weight_rows;
  const Global<const float> from =
      x + (outer * (shape.x_stride == 0 ? width : shape.x_stride) + inner);
  const Global<T> to = out + (outer * shape.out_stride + inner);
  const Global<const float> factors = weight + own_weight * width;
  const bool there = row < shape.rows;
  // Kernels write no weights: they are on their way before x is there.
  const NormQuads<kept <= 2 ? kept : 0> scales(factors, first, threads,
                                               weight && there ? width : 0);
  let_next_start();
  wait_for_earlier();
  if (!there) return;
  const NormQuads<kept> numbers(from, first, threads, width);
  const int steps = kept > 0 ? kept : (width + 4 * threads - 1) / (4 * threads);
  const float count = static_cast<float>(width);
  float mean = 0.0f;
  if (shape.centered) {
    float sum = 0.0f;
    TENON_UNROLL for (int k = 0; k < steps; ++k) {
      const Quad own = numbers.get(from, k, first + k * threads, width, whole);
      TENON_UNROLL for (int e = 0; e < 4; ++e) sum += own[e];  // zeros behind the row
    }
    mean = row_sum(sum, sums, threads) / count;
  }
  float squares = 0.0f;
  TENON_UNROLL for (int k = 0; k < steps; ++k) {
    const int quad = first + k * threads;
    const Quad own = numbers.get(from, k, quad, width, whole);
    TENON_UNROLL for (int e = 0; e < 4; ++e) {
      const float away = 4 * quad + e < width ? own[e] - mean : 0.0f;
      squares = fmaf(away, away, squares);
    }
  }
  squares = row_sum(squares, sums + static_cast<int>(kWarp), threads);
  const float scale = 1.0f / sqrtf(squares / count + shape.eps);
  TENON_UNROLL for (int k = 0; k < steps; ++k) {
    const int quad = first + k * threads;
    Quad y = numbers.get(from, k, quad, width, whole);
    const Quad by = scales.get(factors, k, quad, weight ? width : 0, whole);
    Quad more = {}, old = {};
    if (bias) more = load_quad(bias + own_weight * width, quad, width, whole);
    if (shape.add) old = load_quad(Global<const T>(to), quad, width, whole);
    TENON_UNROLL for (int e = 0; e < 4; ++e) {
      y[e] = (y[e] - mean) * scale;
      if (weight) y[e] *= by[e];
      if (bias) y[e] += more[e];
      if (shape.add) y[e] = y[e] * shape.factor + old[e];
    }
    store_quad(to, quad, width, whole, y);
  }
}

// out = activation(gate) · up, or activation(up) without a gate. Grid: rows · parts of a row, of
// kGateElements, a quad for each thread.
inline constexpr int kGateElements = 4 * kRowThreads;
template <typename T>
__global__ void gate_kernel(Global<const float> gate, Global<const float> up, Global<T> out,
                            int width, int in_stride, int out_stride, ActivationKind kind,
                            SwigluLimit limited, bool whole) {
  let_next_start();
  wait_for_earlier();
  const uint32_t parts = static_cast<uint32_t>((width + kGateElements - 1) / kGateElements);
  const int64_t row = blockIdx.x / parts;
  const int quad =
      static_cast<int>(blockIdx.x % parts) * kRowThreads + static_cast<int>(threadIdx.x);
  const Quad u = load_quad(up + row * in_stride, quad, width, whole);
  Quad g = {};
  if (gate) g = load_quad(gate + row * in_stride, quad, width, whole);
  Quad y;
  TENON_UNROLL for (int e = 0; e < 4; ++e) {
    if (limited.limit > 0.0f) {
      y[e] = limited_swiglu(limited, g[e], u[e]);
    } else {
      y[e] = gate ? activate(kind, g[e]) * u[e] : activate(kind, u[e]);
    }
  }
  store_quad(out + row * out_stride, quad, width, whole, y);
}

// out = out · σ(gate). Grid: as gate_kernel.
template <typename T>
__global__ void open_kernel(Global<const float> gate, Global<T> out, int width, int gate_stride,
                            int out_stride, bool whole) {
  let_next_start();
  wait_for_earlier();
  const uint32_t parts = static_cast<uint32_t>((width + kGateElements - 1) / kGateElements);
  const int64_t row = blockIdx.x / parts;
  const int quad =
      static_cast<int>(blockIdx.x % parts) * kRowThreads + static_cast<int>(threadIdx.x);
  const Global<T> own = out + row * out_stride;
  const Quad g = load_quad(gate + row * gate_stride, quad, width, whole);
  Quad y = load_quad(Global<const T>(own), quad, width, whole);
  TENON_UNROLL for (int e = 0; e < 4; ++e) y[e] /= 1.0f + expf(-g[e]);
  store_quad(own, quad, width, whole, y);
}

// Rows of f32 into rows of a product's input, each from where `rows` says.
template <typename T>
__global__ void take_rows_kernel(Global<const float> from, Global<const uint32_t> rows,
                                 Global<T> to, int width, int to_stride, int from_stride,
                                 bool whole) {
  let_next_start();
  wait_for_earlier();
  const int64_t row =
      rows ? static_cast<int64_t>(uint32_t{rows[blockIdx.x]}) : static_cast<int64_t>(blockIdx.x);
  const int first = first_moved_quad();
  Quad x[kMovedQuads];
  TENON_UNROLL for (int k = 0; k < kMovedQuads; ++k) {
    x[k] = load_quad(from + row * from_stride, first + k * kRowThreads, width, whole);
  }
  const Global<T> own = to + static_cast<int64_t>(blockIdx.x) * to_stride;
  TENON_UNROLL for (int k = 0; k < kMovedQuads; ++k) {
    store_quad(own, first + k * kRowThreads, width, whole, x[k]);
  }
}

// x = cap · tanh(scale · x / cap), or scale · x; then held within ± limit where there is one.
__global__ void adjust_kernel(Global<float> x, uint64_t count, float scale, float cap,
                              float limit) {
  let_next_start();
  wait_for_earlier();
  const uint64_t i = uint64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (i >= count) return;
  float y = scale * x[static_cast<int64_t>(i)];
  if (cap > 0.0f) y = cap * tanhf(y / cap);
  if (limit > 0.0f) y = fminf(fmaxf(y, -limit), limit);
  x[static_cast<int64_t>(i)] = y;
}

}  // namespace tenon::cuda
