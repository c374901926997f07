#include "bench/cuda/kernel_cost.h"

namespace tenon::cuda::bench {
namespace {

// The kernels' own constants; were one another, the emulator would count otherwise.
constexpr uint64_t kRowThreads = 128;
constexpr uint64_t kColumns = 64;
constexpr uint64_t kStep = 32;
constexpr uint64_t kFewRows = 16;
constexpr uint64_t kManyRows = 64;
constexpr uint64_t kWord = 4;

uint64_t bytes_of(Input type) {
  return type == Input::f32 ? 4 : 2;
}
uint64_t bytes_of(CacheType type) {
  return type == CacheType::f32 ? 4 : 2;
}
uint64_t ceiling(uint64_t count, uint64_t of) {
  return (count + of - 1) / of;
}
uint64_t number(int value) {
  return static_cast<uint64_t>(value);
}

// What is asked for once moves once.
Cost once(uint64_t read, uint64_t written) {
  return {read, written, read + written, 0};
}
// Reads that cost `moved` bytes and are asked for `issued` of them.
Cost reads(uint64_t moved, uint64_t issued) {
  return {moved, 0, issued, 0};
}

// Into y, and what enters it beside the sums.
Cost product_output(const MultiplyCall& call) {
  const uint64_t elements = call.rows * number(call.n_out);
  Cost cost = once(call.add ? elements * kWord : 0, elements * kWord);
  if (call.bias != nullptr) cost += reads(number(call.n_out) * kWord, elements * kWord);
  return cost;
}

uint64_t tile_rows(const MultiplyCall& call) {
  return call.rows <= kFewRows ? kFewRows : kManyRows;
}

// x and the operations of a product on tensor cores; each block of columns reads all rows.
Cost tile_inputs(const MultiplyCall& call) {
  const uint64_t columns = ceiling(number(call.n_out), kColumns);
  const uint64_t x_bytes = call.rows * number(call.k_in) * 2;
  Cost cost = reads(x_bytes, columns * x_bytes);
  const uint64_t rows = ceiling(call.rows, tile_rows(call)) * tile_rows(call);
  cost.operations = 2 * rows * columns * kColumns * ceiling(number(call.k_in), kStep) * kStep;
  return cost;
}

}  // namespace

Cost& Cost::operator+=(const Cost& more) {
  read_bytes += more.read_bytes;
  written_bytes += more.written_bytes;
  issued_bytes += more.issued_bytes;
  operations += more.operations;
  return *this;
}

Cost embed_cost(const EmbedCall& call, uint32_t different) {
  const uint64_t width = number(call.width);
  const uint64_t row_bytes = width * bytes_of(call.weights);
  Cost cost = once(0, call.rows * width * kWord);
  cost += reads(call.rows * kWord, call.rows * kRowThreads * kWord);
  cost += reads(different * row_bytes, call.rows * row_bytes);
  if (call.position_table == nullptr) return cost;
  cost += reads(call.rows * kWord, call.rows * kRowThreads * kWord);
  cost += reads(call.rows * row_bytes, call.rows * row_bytes);
  return cost;
}

Cost norm_cost(Input out_type, const NormShape& shape, bool has_weight, bool has_bias) {
  const uint64_t elements = shape.rows * number(shape.width);
  const uint64_t passes = shape.centered ? 3 : 2;
  const uint64_t weights =
      (shape.rows < shape.weight_rows ? shape.rows : shape.weight_rows) * number(shape.width);
  Cost cost = once(shape.add ? elements * bytes_of(out_type) : 0, elements * bytes_of(out_type));
  cost += reads(elements * kWord, passes * elements * kWord);
  if (has_weight) cost += reads(weights * kWord, elements * kWord);
  if (has_bias) cost += reads(weights * kWord, elements * kWord);
  return cost;
}

Cost rotate_cost(uint32_t rows, int head_count, int half) {
  const uint64_t turned = uint64_t{rows} * number(head_count) * 2 * number(half) * kWord;
  Cost cost = once(turned, turned);
  cost += reads(uint64_t{rows} * 2 * number(half) * kWord, turned);
  return cost;
}

Cost gate_cost(Input out_type, uint32_t rows, int width, bool has_gate) {
  const uint64_t elements = rows * number(width);
  return once(elements * kWord * (has_gate ? 2 : 1), elements * bytes_of(out_type));
}

Cost take_rows_cost(Input to_type, uint32_t count, int width, bool has_rows) {
  const uint64_t elements = count * number(width);
  Cost cost = once(elements * kWord, elements * bytes_of(to_type));
  if (has_rows) cost += reads(count * kWord, count * kRowThreads * kWord);
  return cost;
}

Cost adjust_cost(uint64_t count) {
  return once(count * kWord, count * kWord);
}

Cost store_cost(uint32_t rows, const CacheShape& shape) {
  const uint64_t heads = uint64_t{rows} * number(shape.kv_heads);
  const uint64_t elements = heads * number(shape.head_dim);
  Cost cost = once(elements * kWord, elements * bytes_of(shape.type));
  cost += reads(2 * rows * kWord, 2 * heads * kRowThreads * kWord);
  return cost;
}

Cost multiply_cost(Input type, const MultiplyCall& call) {
  const uint64_t n = number(call.n_out);
  const uint64_t k = number(call.k_in);
  Cost cost = product_output(call);
  if (type == Input::f32) {
    const uint64_t products = call.rows * n * k;
    cost += reads(call.rows * k * kWord, products * kWord);
    cost += reads(n * k * kWord, products * kWord);
    return cost;
  }
  const uint64_t w_bytes = n * ceiling(k, kStep) * kStep * 2;
  cost += tile_inputs(call);
  cost += reads(w_bytes, ceiling(call.rows, tile_rows(call)) * w_bytes);
  return cost;
}

Cost multiply_quant_cost(const QuantCall& call) {
  const uint64_t n = number(call.call.n_out);
  const uint64_t k = ceiling(number(call.call.k_in), kStep) * kStep;
  const uint64_t groups = ceiling(number(call.call.k_in), number(call.quant.group));
  const uint64_t tiles = ceiling(call.call.rows, tile_rows(call.call));
  const uint64_t row_warps = tile_rows(call.call) / 16;
  const uint64_t w_bytes = n * k * number(call.quant.bits) / 8;
  Cost cost = product_output(call.call);
  cost += tile_inputs(call.call);
  cost += reads(w_bytes, tiles * w_bytes);
  // Of a warp, 16 lanes' sums need a column's scale, and four lanes' weights its zero.
  cost += reads(n * groups * 2, tiles * row_warps * n * groups * 16 * 2);
  if (call.quant.zeros != nullptr) cost += reads(n * groups, tiles * row_warps * n * groups * 4);
  return cost;
}

}  // namespace tenon::cuda::bench
