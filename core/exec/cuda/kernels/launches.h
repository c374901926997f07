// The kernels of the executor `cuda`, as functions that put them on a stream. Plain C++: what is
// behind it was compiled by nvcc for a device, or by the C++ compiler for the emulator of
// sdk/cuda_host. All pointers are device memory; arrays are row-major; each returns 0 or CUDA's
// error number.
//
// A row's bits depend on its own numbers and on shapes alone: not on how many rows there are, how a
// prompt was cut, or where blocks lie.
#pragma once

#include <cstdint>

namespace tenon::cuda {

struct BFloat16;

// What products read: f32 where weights are f32 and nothing is rounded, else bf16.
enum class Input : uint8_t { f32, bf16 };

struct NormShape {
  uint32_t rows = 0;
  int width = 0;
  int x_stride = 0;  // elements; 0 = width
  int out_stride = 0;
  uint32_t heads = 1;        // rows are so many neighbours in each of what strides lead to
  uint32_t weight_rows = 1;  // row r has weight r % weight_rows
  float eps = 0.0f;
  bool centered = false;  // a layer norm; else an rms norm
  bool add = false;       // out += factor · norm, f32 only
  float factor = 1.0f;
};

enum class ActivationKind : uint8_t { silu, gelu, gelu_tanh, relu, relu_squared };
// With a limit above 0, in place of activation(gate) · up:
//   g · σ(alpha · g) · (clamp(up, ±limit) + 1), g = min(gate, limit)
struct SwigluLimit {
  float alpha = 0.0f;
  float limit = 0.0f;
};

// Weights of 8 or 4 bits with a factor for each `group` of a row's elements, a multiple of 32:
//   w = (q - zero) · scale     8 bits: q signed; 4 bits: q 0 … 15, zero 0 … 128
//   w = q · scale              8 bits that are floats: E4M3 (OCP 8-bit floating point), where NaN's
//                              code is 480
// Where element k of a row stands, in bytes or nibbles (the low one first), says quant_place.
// Scales and zeros of a group stand side by side for all rows, as warps read them.
struct QuantScales {
  const void* scales;    // [groups, rows], from the matrix's first row on: f16, of floats f32
  const uint8_t* zeros;  // [groups, rows], signed with 8 bits; null = 0 (8 bits) or 8 (4 bits)
  int groups;
  int group;
  int bits;
  int rows;  // n_out, or more where matrices lie one below the other
  bool floats;
};
constexpr int quant_scale_bytes(bool floats) {
  return floats ? 4 : 2;
}

#ifdef __CUDACC__
#define TENON_HOST_AND_DEVICE __host__ __device__
#else
#define TENON_HOST_AND_DEVICE
#endif

// A row of packed weights is made of blocks of 64 bytes: 128 elements along K of 4 bits, 64 of 8. A
// block has 16 bytes for each of four lanes of a warp, which loads them at once: those that a lane
// multiplies of 32 elements stand side by side, in the order in which it takes them apart: 2c,
// 2c + 1, 2c + 8, 2c + 9 and the same 16 further on, for c in 0 … 3; and behind them its part of
// the next 32. With 4 bits those with even k are the low halves of a word of 8 nibbles.
TENON_HOST_AND_DEVICE constexpr int quant_block(int bits) {
  return 512 / bits;
}
// Bytes of a row.
TENON_HOST_AND_DEVICE constexpr int64_t quant_stride(int64_t k_in, int bits) {
  return (k_in + quant_block(bits) - 1) / quant_block(bits) * 64;
}
TENON_HOST_AND_DEVICE constexpr int quant_place(int k, int bits) {
  const int block = quant_block(bits);
  const int lane = k % 8 / 2;
  const int pair = k % 32 / 8;
  const int within = bits == 4 ? pair + k % 2 * 4 : pair * 2 + k % 2;
  return k / block * block + lane * (block / 4) + k % block / 32 * 8 + within;
}

// So many elements of K are summed up before the scale of the group they lie in enters.
TENON_HOST_AND_DEVICE constexpr int quant_segment(int group) {
  return group % 128 == 0 ? 128 : group == 64 ? 64 : 32;
}

struct EmbedCall {
  const int32_t* tokens;       // [rows]
  const uint32_t* positions;   // [rows], where there is a position table
  const void* table;           // [vocabulary, stride] of `weights`, or of bytes
  QuantScales quant;           // of the table; bits 0: it is not quantised
  const void* position_table;  // [context, position_stride] of `weights`
  Input weights;
  float* hidden;  // [rows, width]
  uint32_t rows;
  int width;
  int stride;
  int position_stride;
  float scale;
  // The tokens [first_token, end_token) that the table has, of which its first row is the first;
  // rows of others are not written. end_token 0: it has all.
  uint32_t first_token;
  uint32_t end_token;
};
int launch_embed(void* stream, const EmbedCall& call);

// How a norm goes about a row, by its width alone, since that fixes the order of sums: so many
// threads, and how many times 4 of its elements each of them keeps; none where a row is too wide
// for that, or not aligned. A thread's elements are the same in any case.
struct NormTeam {
  int threads;
  int kept;
};
inline constexpr int kMaxNormThreads = 1024;
inline constexpr uint32_t kNormWarps = 4;  // of a block, where a row has a warp
constexpr NormTeam norm_team(int width) {
  const int quads = (width + 3) / 4;
  if (quads <= 64) return {32, quads <= 32 ? 1 : 2};
  if (quads <= kMaxNormThreads) return {(quads + 63) / 64 * 32, 2};
  if (quads <= 4 * kMaxNormThreads) return {(quads + 127) / 128 * 32, 4};
  return {kMaxNormThreads, 0};
}
constexpr bool norm_aligned(const NormShape& shape) {
  return shape.width % 4 == 0 && shape.x_stride % 4 == 0 && shape.out_stride % 4 == 0;
}
// Weight and bias may be null. `out` is of type `out_type`.
int launch_norm(void* stream, const float* x, const float* weight, const float* bias, void* out,
                Input out_type, const NormShape& shape);

// out [rows, out_stride] = activation(gate [rows, in_stride]) · up; gate null: activation(up).
int launch_gate(void* stream, const float* gate, const float* up, void* out, Input out_type,
                uint32_t rows, int width, int in_stride, int out_stride, ActivationKind kind,
                SwigluLimit limited = {});

// out [rows, out_stride] · σ(gate [rows, gate_stride]), in place.
int launch_open(void* stream, const float* gate, void* out, Input out_type, uint32_t rows,
                int width, int gate_stride, int out_stride);

// to [count, to_stride] = the first `width` of rows of from [.., from_stride]; `rows` null: the
// first ones; from_stride 0: width.
int launch_take_rows(void* stream, const float* from, const uint32_t* rows, void* to, Input to_type,
                     uint32_t count, int width, int to_stride, int from_stride = 0);

// x = cap · tanh(scale · x / cap), without a cap scale · x; then held within ±limit, if that is >
// 0.
int launch_adjust(void* stream, float* x, uint64_t count, float scale, float cap, float limit);

// Elements of K and V, as <tenon/attention.h> has them: rows of i8 and i4 end with a scale.
enum class CacheType : uint8_t { f32, bf16, i8, i4 };
constexpr bool is_quantised(CacheType type) {
  return type == CacheType::i8 || type == CacheType::i4;
}
// Of a row of i8 or i4: where its scale stands, and how long it is.
constexpr int cache_scale_at(CacheType type, int dim) {
  const int bytes = type == CacheType::i8 ? dim : (dim + 1) / 2;
  return (bytes + 1) / 2 * 2;
}
constexpr int cache_row_bytes(CacheType type, int dim) {
  return cache_scale_at(type, dim) + (type == CacheType::i8 ? 2 : 4);
}

// What a cache's plane is made of: [block][kv_head][token][element].
struct CacheShape {
  CacheType type;
  int kv_heads;
  int head_dim;
  int block_tokens;
};
// Heads on their way to attention: q is turned where it stands, K and V go into the cache, K
// turned. Of a head 2 · half elements turn, in halves or in pairs.
struct HeadsCall {
  float* q;        // [rows, q_stride], heads of q_dim elements that begin to turn at once; or null
  const float* k;  // [rows, kv_stride], heads of cache.head_dim that turn from k_first on; or null
  const float* v;  // likewise, or null where K holds it
  const float* angles;      // [rows, 2, half]; null: nothing turns, and q is not touched
  const uint32_t* blocks;   // [rows]
  const uint32_t* offsets;  // [rows] the token of its block
  void* k_cache;
  void* v_cache;
  CacheShape cache;
  uint32_t rows;
  int q_stride;
  int q_heads;
  int q_dim;
  int kv_stride;
  int k_first;
  int half;
  bool pairs;
};
int launch_place_heads(void* stream, const HeadsCall& call);
// How many threads share a head. One warp finds the scale of a quantised one, and is enough where
// there are many heads; of few rows more threads wait a shorter time.
constexpr int head_threads(const HeadsCall& call) {
  return is_quantised(call.cache.type) || call.rows >= 16 ? 32 : 128;
}

// y [rows, y_stride] = x · Wᵀ + bias, or y += factor · (x · Wᵀ + bias).
//
// x has `k_in` elements a row and x_stride from row to row, a multiple of 8 for bf16. Sums run over
// K in order: f32 one by one, bf16 in steps of 16 within pieces of 1,024, and pieces in order.
//
// What a product is made of changes no bit. `by_shape` chooses as tiles_of does; of heads alone
// rows_16 may have more rows than that. With weights of few bits rows_16 are 8, rows_64 take fewer
// than 16 too, and `wide` is `narrow`.
enum class ProductTiles : uint8_t { by_shape, rows_16, rows_64, narrow, wide };
struct MultiplyCall {
  const void* x;
  const void* w;      // [n_out, w_stride]; bf16: w_stride a multiple of 32, zeros behind k_in
  const float* bias;  // [n_out] or null
  float* y;
  uint32_t rows;
  int n_out;
  int k_in;
  int x_stride;
  int w_stride;
  int y_stride;
  bool add;
  float factor;
  ProductTiles tiles;
};
// The tiles of multiply_many.cuh, narrow with 128 × 128 elements and wide with 128 × 256, pay where
// there are enough of them to give a device's multiprocessors one each. Where a device lacks the
// shared memory for wide ones, narrow ones take their place.
inline constexpr uint64_t kEnoughWideTiles = 128;
inline constexpr uint64_t kEnoughNarrowTiles = 64;
constexpr ProductTiles tiles_of(const MultiplyCall& call, uint32_t heads = 1) {
  if (call.tiles != ProductTiles::by_shape) return call.tiles;
  if (call.rows <= 16) return ProductTiles::rows_16;
  if (call.rows <= 64) return ProductTiles::rows_64;
  const uint64_t down = (call.rows + uint64_t{127}) / 128 * heads;
  if (down * static_cast<uint64_t>((call.n_out + 255) / 256) >= kEnoughWideTiles) {
    return ProductTiles::wide;
  }
  return down * static_cast<uint64_t>((call.n_out + 127) / 128) >= kEnoughNarrowTiles
             ? ProductTiles::narrow
             : ProductTiles::rows_64;
}
int launch_multiply(void* stream, Input type, const MultiplyCall& call);

// Of a product of at most 16 rows: the columns of a block, in warps of 16, and the elements of K of
// a step.
struct FewTile {
  int columns;
  int step;
};
FewTile few_tile(const MultiplyCall& call);

// Such products of some rows have blocks of so many columns where there are so many of them. With
// fewer columns they would read x more often, with more some multiprocessors would have none.
inline constexpr int kWideBlockColumns = 128;
inline constexpr int kEnoughWideBlocks = 120;

// Of one of rows_64: the rows and columns of a block, and how many of its lanes have a piece of K
// at the same time (multiply_some.cuh).
struct SomeTileSize {
  int rows;
  int columns;
  int lanes;
};
SomeTileSize some_tile(const MultiplyCall& call);

// `count` such products beside each other, of heads that have a matrix each: x, w and y of the next
// one begin so many elements further. No bias; x must stay aligned to 16 bytes.
struct HeadStrides {
  uint32_t count;
  int x;
  int w;
  int y;
};
int launch_multiply_heads(void* stream, Input type, const MultiplyCall& call,
                          const HeadStrides& heads);

// In place of y, where W has a gate's rows and, below them, as many of an up:
//   out [rows, stride] = activation(gate) · up, as launch_gate makes it of y
struct GatedOutput {
  void* out;  // bf16; null: none
  int stride;
  ActivationKind kind;
};

// Whether products with weights of 8 or 4 bits have the kernel of few rows, at most 8, which alone
// makes a gated output (multiply_few_quant.cuh). Those of more are slower in the first rows and
// take hardly longer for the next ones; wide matrices, which give every multiprocessor a block,
// gain earlier (experiment 029).
inline constexpr uint32_t kFewQuantRows = 8;
constexpr bool is_few_quant(uint32_t rows, int n_out) {
  return rows <= (n_out >= kEnoughWideBlocks * kWideBlockColumns ? 5 : kFewQuantRows);
}

// Weights of 8 or 4 bits. They are multiplied as bf16, which holds integers and floats of 8 bits
// exactly; scales enter in f32 behind each segment. `call.w` is [n_out, w_stride] bytes, w_stride
// that of quant_stride.
struct QuantCall {
  MultiplyCall call;
  QuantScales quant;
  GatedOutput gated;
};
int launch_multiply_quant(void* stream, const QuantCall& call);

// Of such a product of few rows: the columns of a block, the elements of K of a step, and of how
// many groups a column's scale and zero are read.
struct FewQuantTile {
  int columns;
  int step;
  int groups;
};
bool has_few_rows(const QuantCall& call);
FewQuantTile few_quant_tile(const QuantCall& call);
// Of one of more rows.
SomeTileSize some_quant_tile(const QuantCall& call);

// Experts. A row chooses some of them; its choice number i has the place row · chosen + i, and what
// a row's experts make stands at its places.
enum class RouteScoring : uint8_t { softmax, softmax_of_chosen, sigmoid };  // ExpertScoring
struct RouteShape {
  int width;  // of a row
  int x_stride;
  int router_stride;
  int count;  // experts
  int chosen;
  int groups;
  int groups_chosen;
  RouteScoring scoring;
  bool normalised;
  bool best_two;  // judge a group
  float scale;
};
struct RouteCall {
  const float* x;              // [rows, x_stride]
  const float* router;         // [count, router_stride]
  const float* bias;           // [count] or null
  const float* correction;     // [count] or null
  const float* shared_router;  // [width] or null
  uint32_t* experts;           // [rows, chosen], best first
  float* factors;              // [rows, chosen + 1]: the last is the shared expert's
  uint32_t rows;
};
int launch_route(void* stream, const RouteCall& call, const RouteShape& shape);

// What rows chose, and the same by experts: an expert's places, rising, are the first counts[e] of
// its `room` numbers in `lists`.
struct ExpertRows {
  const uint32_t* experts;  // [rows, chosen]
  const uint32_t* lists;    // [count, room]
  const uint32_t* counts;   // [count]
  uint32_t rows;
  uint32_t chosen;
  uint32_t count;
  uint32_t room;
};
int launch_collect_places(void* stream, const ExpertRows& rows, uint32_t* lists, uint32_t* counts);

// For each place, with its expert's matrix and bias: y[place] = x[place / each] · Wᵀ + bias. W has
// [count · n_out] rows; with bits its integers and scales are those of `quant`. `each` is 1 where x
// has a row a place. `call.rows` is not read.
int launch_multiply_experts(void* stream, Input type, const MultiplyCall& call,
                            const QuantScales& quant, const ExpertRows& rows, uint32_t each);

struct AddExpertsCall {
  const float* of;       // [rows · chosen, width]
  const float* factors;  // [rows, chosen + 1]
  const float* shared;   // [rows, width] or null
  float* out;            // [rows, width]
  uint32_t rows;
  int chosen;
  int width;
  bool add;  // out += scale · sum; else out = sum
  float scale;
  int out_stride;  // 0: width
};
int launch_add_experts(void* stream, const AddExpertsCall& call);

// Sequences of a step. Items of a sequence and KV head are its rows times the query heads that
// share that head: item i is row i / (heads / kv_heads).
//
// Rows of a sequence follow each other, or form a tree behind what is in the cache: then a row sees
// what is there, the rows that lead to it, and itself. Rows are stored one behind the other all the
// same, row r of a tree behind the `slots[first_row]` entries that all of it sees.
//
// Entries are summed up in ranges of kSplitEntries that begin at position 0, each from nothing, and
// the ranges' results in order. A block walks along a row's ranges, or they are computed beside
// each other and added up by a launch of their own, which changes no bit.
struct AttentionTile {
  uint32_t sequence;
  uint32_t first_item;
};
struct AttentionSequence {
  uint32_t first_row;
  uint32_t rows;
  uint32_t first_entry;  // of its table, in `tables`
};
struct AttentionArrays {
  const float* q;  // [rows, q_stride]: heads, head_dim; aligned to 16 bytes
  const void* k;   // planes
  const void* v;   // k again where V is the beginning of K's rows
  const AttentionSequence* sequences;
  const AttentionTile* tiles;    // those of few items, wide ones, those of trees
  const uint32_t* slots;         // [rows] entries in front of the row; of a tree's, on its path
  const uint32_t* parents;       // [rows] the row that a tree's follows, in front of the tree any
                                 // number; of other rows kNoTree. Null: no row is a tree's
  const uint32_t* row_sequence;  // [rows] which of `sequences`
  const uint32_t* first_ranges;  // [rows] where results of the ranges that it sees begin in
                                 // `partial`; kWalked: a block walks along them
  const uint32_t* split_rows;    // [split_rows] the others
  const int32_t* tables;         // block ids; of blocks that no row sees they are not read
  const float* sinks;            // [heads] or null
  const float* slopes;           // [heads] or null: slope · (entry - row's own) on a score
  float* partial;                // [ranges, heads, attention_value_stride]
  float* sums;                   // [ranges, heads, 2]: largest score (base 2), sum
  void* out;                     // [rows, out_stride]
};
struct AttentionShape {
  CacheShape cache;
  int v_dim;         // elements of a row of V: head_dim, or fewer of latent attention
  int q_stride = 0;  // elements from row to row; 0: heads * head_dim
  Input out_type;
  int out_stride;
  int out_head_stride;
  int heads;
  uint32_t rows;        // of the step
  uint32_t tiles;       // of kTileItems items, without those of trees
  uint32_t wide_tiles;  // of kWideItems; their rows are walked
  uint32_t tree_tiles;  // of kTileItems
  uint32_t split_rows;
  uint32_t splits;  // the most ranges that a sequence's rows see, those of wide tiles aside
  uint32_t window;  // 0 = none
  float scale;
  float cap;  // 0 = none
};
inline constexpr uint32_t kSplitEntries = 64;
inline constexpr uint32_t kTileItems = 16;
inline constexpr uint32_t kWideItems = 128;
inline constexpr uint32_t kNoTree = 0xffffffffu;
inline constexpr uint32_t kWalked = 0xffffffffu;
constexpr uint32_t attention_splits(uint32_t entries) {
  return (entries + kSplitEntries - 1) / kSplitEntries;
}
// Of a head's results of a range in `partial`: aligned to 16 bytes.
constexpr int attention_value_stride(int v_dim) {
  return (v_dim + 3) / 4 * 4;
}
// Tensor cores serve caches of bf16, and of i8 and i4, which become bf16 on their way, with a
// head_dim of 64, 80, 96, 128 and 256, and latent attention with rows of 576 of which V is 512; all
// else, up to these, is computed in f32.
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kMaxLatentDim = 576;
int launch_attention(void* stream, const AttentionArrays& arrays, const AttentionShape& shape);

// Tokens of rows of logits (core/exec/row_draw.h). All products and sums are rounded one by one,
// weights are summed up in the sampler's order, so tokens are those of the sampler; a row in which
// the order of a sum could decide is left undrawn.
enum class DrawCutKind : uint32_t { top_k, top_p, min_p };
struct DrawCut {
  DrawCutKind kind;
  float scale;
  double number;
};
struct DrawRow {
  uint64_t seed;  // the random number's key
  uint32_t sample;
  uint32_t position;
  uint32_t logits_row;
  uint32_t greedy;
  float scale;
  uint32_t cut_count;
  DrawCut cuts[3];
};
static_assert(sizeof(DrawRow) == 80);
struct DrawCall {
  const float* logits;   // [.., vocabulary]
  const DrawRow* draws;  // [rows]
  int32_t* tokens;       // [rows]; -1: undrawn
  double* weights;       // [rows, draw_blocks(vocabulary)] scratch
  uint32_t rows;
  uint32_t vocabulary;
};
inline constexpr uint32_t kDrawBlock = 64;  // logits whose weights are summed up together
constexpr uint32_t draw_blocks(uint32_t vocabulary) {
  return (vocabulary + kDrawBlock - 1) / kDrawBlock;
}
int launch_draw(void* stream, const DrawCall& call);

}  // namespace tenon::cuda
