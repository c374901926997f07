#include "bench/cuda/kernel_cost.h"

#include <set>

#include "bench/cuda/product_cost.h"

namespace tenon::cuda::bench {
namespace {

// Into y, and the values that enter it in addition to the sums.
Cost product_output(const MultiplyCall& call) {
  const uint64_t elements = call.rows * number(call.n_out);
  Cost cost = once(call.add ? elements * kWord : 0, elements * kWord);
  if (call.bias != nullptr) cost += reads(number(call.n_out) * kWord, elements * kWord);
  return cost;
}

// Each block of columns reads all rows of x.
Cost tile_inputs(const MultiplyCall& call) {
  const uint64_t x_bytes = call.rows * number(call.k_in) * 2;
  return reads(x_bytes, ceiling(number(call.n_out), kColumns) * x_bytes);
}

// Tiles of `rows` × `columns` that are filled up with the last row and column, read so many bytes
// of each column of W, and multiply so many elements of K, zeros after it among them.
Cost filled_tiles(const MultiplyCall& call, uint64_t rows, uint64_t columns, uint64_t w_bytes,
                  uint64_t multiplied) {
  const uint64_t down = ceiling(call.rows, rows);
  const uint64_t across = ceiling(number(call.n_out), columns);
  const uint64_t row_bytes = number(call.k_in) * 2;
  Cost cost = reads(call.rows * row_bytes, across * down * rows * row_bytes);
  cost += reads(number(call.n_out) * w_bytes, down * across * columns * w_bytes);
  cost.operations = 2 * down * rows * across * columns * multiplied;
  return cost;
}
Cost filled_tiles(const MultiplyCall& call, uint64_t rows, uint64_t columns) {
  const uint64_t k = ceiling(number(call.k_in), kStep) * kStep;
  return filled_tiles(call, rows, columns, k * 2, k);
}

// Lanes with pieces of K; where the last ones are short or missing, some multiply zeros.
Cost some_rows(const MultiplyCall& call) {
  const SomeTileSize tile = some_tile(call);
  const uint64_t k = ceiling(number(call.k_in), kStep) * kStep;
  const uint64_t round = number(tile.lanes) * kPiece;
  const uint64_t last = k % round < kPiece ? k % round : kPiece;
  return filled_tiles(call, number(tile.rows), number(tile.columns), k * 2,
                      k / round * round + number(tile.lanes) * last);
}

// The same with codes, whose scales and zeros are read with each block of K, for each of its
// segments.
Cost some_quant_rows(const QuantCall& call) {
  const SomeTileSize tile = some_quant_tile(call);
  const auto stride = static_cast<uint64_t>(quant_stride(call.call.k_in, call.quant.bits));
  const uint64_t k = number(call.call.k_in);
  Cost cost = filled_tiles(call.call, number(tile.rows), number(tile.columns), stride,
                           ceiling(k, 2 * kStep) * 2 * kStep);
  const uint64_t n = number(call.call.n_out);
  const uint64_t columns = ceiling(call.call.rows, number(tile.rows)) *
                           ceiling(n, number(tile.columns)) * number(tile.columns);
  const uint64_t block = number(quant_block(call.quant.bits));
  const uint64_t segment = number(quant_segment(call.quant.group));
  const uint64_t read = columns * ceiling(k, block) * (segment < block ? block / segment : 1);
  const uint64_t groups = number(call.quant.groups);
  const uint64_t scale_bytes = number(quant_scale_bytes(call.quant.floats));
  cost += reads(n * groups * scale_bytes, read * scale_bytes);
  if (call.quant.zeros != nullptr) cost += reads(n * groups, read);
  return cost;
}

// Warps that have all rows of x each, and read their columns of W once.
Cost few_rows(const MultiplyCall& call) {
  const FewTile tile = few_tile(call);
  const uint64_t n = number(call.n_out);
  const uint64_t k = number(call.k_in);
  const uint64_t columns = ceiling(n, number(tile.columns)) * number(tile.columns);
  const uint64_t x_bytes = call.rows * k * 2;
  Cost cost = reads(x_bytes, columns / kFewColumns * x_bytes);
  const uint64_t column_bytes = ceiling(k, kStep) * kStep * 2;
  cost += reads(n * column_bytes, columns * column_bytes);
  // A step of a piece lies in no other.
  const uint64_t steps =
      k / kPiece * (kPiece / number(tile.step)) + ceiling(k % kPiece, number(tile.step));
  cost.operations = 2 * kFewRows * columns * steps * number(tile.step);
  return cost;
}

// Blocks that have all rows of x each, whose warps read their columns of W once.
Cost few_quant_rows(const QuantCall& call) {
  const FewQuantTile tile = few_quant_tile(call);
  const uint64_t n = number(call.call.n_out);
  const uint64_t k = number(call.call.k_in);
  const uint64_t apart = call.gated.out != nullptr ? 2 : 1;  // whose columns end apart
  const uint64_t blocks = ceiling(n / apart, number(tile.columns) / apart);
  const uint64_t columns = blocks * number(tile.columns);
  const uint64_t x_bytes = call.call.rows * k * 2;
  Cost cost = reads(x_bytes, blocks * x_bytes);
  const auto column_bytes = static_cast<uint64_t>(quant_stride(call.call.k_in, call.quant.bits));
  cost += reads(n * column_bytes, columns * column_bytes);
  const uint64_t steps = ceiling(k, number(tile.step));
  cost.operations = 2 * kFewQuantTileRows * columns * steps * number(tile.step);
  // Scales and zeros are read once.
  const uint64_t groups = number(call.quant.groups);
  const uint64_t read = columns * number(tile.groups);
  const uint64_t scale_bytes = number(quant_scale_bytes(call.quant.floats));
  cost += reads(n * groups * scale_bytes, read * scale_bytes);
  if (call.quant.zeros != nullptr) cost += reads(n * groups, read);
  return cost;
}

// One of `heads` products that a launch makes; they have the same tiles.
Cost one_product(Input type, const MultiplyCall& call, uint32_t heads) {
  const uint64_t n = number(call.n_out);
  const uint64_t k = number(call.k_in);
  Cost cost = product_output(call);
  if (type == Input::f32) {
    const uint64_t products = call.rows * n * k;
    cost += reads(call.rows * k * kWord, products * kWord);
    cost += reads(n * k * kWord, products * kWord);
    return cost;
  }
  const ProductTiles tiles = tiles_of(call, heads);
  if (tiles == ProductTiles::narrow || tiles == ProductTiles::wide) {
    cost += filled_tiles(call, 128, tiles == ProductTiles::wide ? 256 : 128);
    return cost;
  }
  cost += tile_inputs(call);
  cost += tiles_of_rows(call, {}, call.rows, tiles == ProductTiles::rows_16 ? kFewRows : kManyRows);
  return cost;
}

// K or V of all rows. An element that turns is made of two and of two angles; a warp looks at a row
// of i8 and i4 before it rounds it.
Cost stored_heads(const HeadsCall& call, uint64_t turned) {
  const CacheShape& cache = call.cache;
  const bool quantised = is_quantised(cache.type);
  const uint64_t heads = call.rows * number(cache.kv_heads);
  const uint64_t bytes = number(cache.head_dim) * kWord;
  const uint64_t row_bytes = quantised ? number(cache_row_bytes(cache.type, cache.head_dim))
                                       : number(cache.head_dim) * bytes_of(cache.type);
  Cost cost = once(0, heads * row_bytes);
  cost += reads(heads * bytes, (quantised ? 2 : 1) * heads * (bytes + 3 * turned));
  cost += reads(0, 2 * heads * number(head_threads(call)) * kWord);
  return cost;
}

// The threads that move rows; each of them looks up which row it has.
uint64_t moving_threads(uint64_t rows, uint64_t width) {
  return rows * ceiling(width, 8 * kRowThreads) * kRowThreads;
}

// Of rows of the table.
Cost table_rows(const EmbedCall& call, uint64_t different) {
  const uint64_t width = number(call.width);
  const uint64_t elements = call.rows * width;
  const QuantScales& quant = call.quant;
  if (quant.bits == 0) {
    const uint64_t element = bytes_of(call.weights);
    return reads(different * width * element, elements * element);
  }
  const uint64_t groups = ceiling(width, number(quant.group));
  // The last elements stand apart, those of 4 bits not always two in a byte.
  const int block = quant_block(quant.bits);
  const int whole_width = call.width / block * block;
  std::set<int> bytes;
  for (int i = whole_width; i < call.width; ++i) {
    bytes.insert(quant_place(i, quant.bits) * quant.bits / 8);
  }
  const uint64_t whole = number(whole_width) * number(quant.bits) / 8;
  const uint64_t quads = call.rows * ceiling(width, 4);  // each has one scale
  Cost cost = reads(different * (whole + bytes.size()), elements);
  const uint64_t scale_bytes = number(quant_scale_bytes(quant.floats));
  cost += reads(different * groups * scale_bytes, quads * scale_bytes);
  if (quant.zeros != nullptr) cost += reads(different * groups, quads);
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
  cost += reads(call.rows * kWord, moving_threads(call.rows, width) * kWord);
  cost += table_rows(call, different);
  if (call.position_table == nullptr) return cost;
  cost += reads(call.rows * kWord, moving_threads(call.rows, width) * kWord);
  cost += reads(call.rows * row_bytes, call.rows * row_bytes);
  return cost;
}

Cost norm_cost(Input out_type, const NormShape& shape, bool has_weight, bool has_bias) {
  const uint64_t elements = shape.rows * number(shape.width);
  const bool kept = norm_aligned(shape) && norm_team(shape.width).kept > 0;
  const uint64_t passes = kept ? 1 : shape.centered ? 3 : 2;
  const uint64_t weights =
      (shape.rows < shape.weight_rows ? shape.rows : shape.weight_rows) * number(shape.width);
  Cost cost = once(shape.add ? elements * bytes_of(out_type) : 0, elements * bytes_of(out_type));
  cost += reads(elements * kWord, passes * elements * kWord);
  if (has_weight) cost += reads(weights * kWord, elements * kWord);
  if (has_bias) cost += reads(weights * kWord, elements * kWord);
  return cost;
}

Cost gate_cost(Input out_type, uint32_t rows, int width, bool has_gate) {
  const uint64_t elements = rows * number(width);
  return once(elements * kWord * (has_gate ? 2 : 1), elements * bytes_of(out_type));
}

Cost take_rows_cost(Input to_type, uint32_t count, int width, bool has_rows) {
  const uint64_t elements = count * number(width);
  Cost cost = once(elements * kWord, elements * bytes_of(to_type));
  if (has_rows) cost += reads(count * kWord, moving_threads(count, number(width)) * kWord);
  return cost;
}

Cost adjust_cost(uint64_t count) {
  return once(count * kWord, count * kWord);
}

Cost place_heads_cost(const HeadsCall& call) {
  const uint64_t rows = call.rows;
  const uint64_t turned = call.angles == nullptr ? 0 : 2 * number(call.half) * kWord;  // of a head
  const bool stores = call.k != nullptr || call.v != nullptr;
  Cost cost = reads(rows * turned, 0);
  if (call.q != nullptr) {
    const uint64_t heads = rows * number(call.q_heads);
    cost += once(heads * turned, heads * turned);
    cost += reads(0, heads * turned);
  }
  if (stores) cost += reads(2 * rows * kWord, 0);
  if (call.k != nullptr) cost += stored_heads(call, turned);
  if (call.v != nullptr) cost += stored_heads(call, 0);
  return cost;
}

Cost multiply_cost(Input type, const MultiplyCall& call) {
  const ProductTiles tiles = type == Input::f32 ? ProductTiles::by_shape : tiles_of(call);
  if (tiles == ProductTiles::rows_16 || tiles == ProductTiles::rows_64) {
    Cost cost = product_output(call);
    cost += tiles == ProductTiles::rows_16 ? few_rows(call) : some_rows(call);
    return cost;
  }
  return one_product(type, call, 1);
}

Cost multiply_quant_cost(const QuantCall& call) {
  Cost cost = product_output(call.call);
  if (call.gated.out != nullptr) {
    cost = once(0, call.call.rows * number(call.call.n_out) / 2 * 2);
    if (call.call.bias != nullptr) {
      cost +=
          reads(number(call.call.n_out) * kWord, call.call.rows * number(call.call.n_out) * kWord);
    }
  }
  cost += has_few_rows(call) ? few_quant_rows(call) : some_quant_rows(call);
  return cost;
}

Cost multiply_heads_cost(Input type, const MultiplyCall& call, uint32_t heads) {
  const Cost one = one_product(type, call, heads);
  Cost cost;
  for (uint32_t head = 0; head < heads; ++head) cost += one;
  return cost;
}

}  // namespace tenon::cuda::bench
