// LinearKernel: y = x · Wᵀ for weights of one or more formats.
//
// Weights cross the boundary once, as borrowed views of the checkpoint; the kernel packs them into
// bytes that the executor allocates and owns. The same packed bytes serve one row and thousands.
//
// Activations are prepared before they are multiplied: brought into the form the kernel multiplies
// with (bf16, int8 with scales, reordered columns, …). A preparation may depend on the weight
// (act-order, smoothing, static scales, group size). Weights whose `preparation` names the same key
// and width share one preparation.
//
// A kernel promises the same bits for a row whatever the number of rows, slices and ranges: each
// sum runs over K in an order that depends on shape and format alone, slices split columns or rows,
// never K (else it states the fact numerics.rows = batch).
//
// Calls on a device put work on `queue` and return; on the host (queue null) they have done it when
// they return. What is launched depends on the numbers of rows given, never on what arrays hold, so
// that a captured graph may replay it. Calls and jobs themselves are read before a call returns;
// what they point to (activations, packed bytes, rows, scales, bias) lies in LinearLimits::space
// and is read when the work runs. The host knows the length of every span.
//
// Threads: `bind` is [control]. `epilogues`, `accepts`, `packed_bytes`, `preparation`,
// `prepared_bytes` and `numerics` are [any]. `pack`, `gather`, `prepare` and `run` are [worker],
// called by all slices or ranges with equal arguments; the executor puts barriers between calls.
// Ranges of one `run` may be of any size and come in any order; two calls of one worker never
// overlap, so scratch memory can be a worker's. For few rows every worker may prepare a copy of its
// own, as the only slice; jobs then differ in `prepared` alone, which holds the same bytes.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// A weight matrix [n_out, k_in] as the checkpoint stores it. Plain formats ("f32", "f16", "bf16")
// have one part, row-major; quantised formats document their parts in docs/formats.
struct WeightView {
  std::string_view format = {};
  std::string_view name = {};  // for messages
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  std::span<const TensorView> parts = {};
  // [n_out]: the row of the parts that is row n of the matrix; each stands there once. Empty: rows
  // are stored in order. (GGUF files interleave the halves of rotated heads.)
  std::span<const uint32_t> row_order = {};

  constexpr uint32_t stored_row(uint32_t row) const noexcept {
    return row_order.empty() ? row : row_order[row];
  }
};

// Upper bounds of one step.
struct LinearLimits {
  uint32_t max_rows = 0;       // of x, those that experts repeat included
  uint32_t workers = 1;        // that call `run` at once; WorkRange::worker is below it
  DType x_dtype = DType::f32;  // of activations, as calls will have them
  DType y_dtype = DType::f32;  // … or f32, which every kernel can write (logits)
  Space space = {};            // where activations and packed weights live
};

// What is done with a finished product p = row_scale · (x·Wᵀ) + bias. A kernel says which it has;
// an executor replaces the others by `store` and operations of its own.
enum class Epilogue : uint8_t {
  store = 0,  // y  = p                                every kernel has it
  add = 1,    // y += p                                residual connection
  silu_mul = 2,  // y  = silu(p) · p₂                     gated MLP; p₂ = row_scale · (x·W₂ᵀ)
  gelu_mul = 3,  // y  = gelu_tanh(p) · p₂
};
using EpilogueMask = uint32_t;
constexpr EpilogueMask epilogue_bit(Epilogue epilogue) noexcept {
  return EpilogueMask{1} << static_cast<uint32_t>(epilogue);
}

// The end of gated epilogues alone, y[i] = activation(y[i]) · p₂[i], in the bits of `run`: for
// executors that add to p and p₂. Kernels on the host may offer it as extension kGateFinish. [any]
inline constexpr std::string_view kGateFinish = "gate_finish/1";
using GateFinishCall = void (*)(float* y, const float* second, uint64_t count) noexcept;
struct GateFinish {
  GateFinishCall silu_mul = nullptr;  // null = not here
  GateFinishCall gelu_mul = nullptr;
};

// How activations must be prepared for a weight.
struct Preparation {
  uint64_t key = 0;  // 0 = follows from k_in alone; else names the part of the weight it depends on
  uint32_t k_in = 0;
  friend constexpr bool operator==(Preparation, Preparation) = default;
};

struct PrepareCall {
  Preparation preparation;
  const void* packed = nullptr;  // any weight of that preparation
  const void* x = nullptr;       // [rows, k_in]
  DType x_dtype = DType::f32;
  uint64_t x_stride = 0;  // elements from row to row
  uint32_t rows = 0;
  std::span<const uint32_t> x_rows = {};  // [rows] which rows of x; empty = the first ones
  void* prepared = nullptr;
  DeviceQueue queue = nullptr;
};

// Rows of a packed weight as plain numbers: embeddings, also read from a tied head.
struct GatherCall {
  const void* packed = nullptr;
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  std::span<const uint32_t> rows = {};  // each below n_out
  void* out = nullptr;                  // [rows, k_in]
  DType out_dtype = DType::f32;
  uint64_t out_stride = 0;  // elements
  DeviceQueue queue = nullptr;
};

struct LinearJob {
  const void* packed = nullptr;
  const void* packed_second = nullptr;  // W₂ of gated epilogues; shape, format, preparation as W
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  const void* prepared = nullptr;       // what `prepare` made from x [x_rows, k_in]
  DType x_dtype = DType::f32;           // if `prepared` is x itself, which nothing prepared
  uint64_t x_stride = 0;                // likewise: elements from row to row
  uint32_t x_rows = 0;                  // rows that `prepare` was given
  std::span<const uint32_t> rows = {};  // which of them, in the job's order; empty = all
  // If the device itself chooses experts: how many of `rows`, the leading ones, count; read when
  // the work runs. Null = all.
  const uint32_t* rows_used = nullptr;
  void* y = nullptr;
  DType y_dtype = DType::f32;
  uint64_t y_stride = 0;                  // elements from row to row
  std::span<const uint32_t> y_rows = {};  // where the job's rows go in y, each once; empty = 0, 1 …
  const float* row_scale = nullptr;       // a factor for each of the job's rows, or null
  const float* bias = nullptr;            // [n_out] or null; added once the sum is finished
  Epilogue epilogue = Epilogue::store;

  constexpr uint32_t row_count() const noexcept {
    return rows.empty() ? x_rows : static_cast<uint32_t>(rows.size());
  }
};

// Parts [first, last) of `count` equal parts of a call's work, where a job's work is its columns
// times its rows. Workers fetch ranges as they become free, also several; each part once.
struct WorkRange {
  uint32_t first = 0;
  uint32_t last = 1;
  uint32_t count = 1;
  uint32_t worker = 0;
};

class LinearKernel {
 public:
  // Once, before anything else.
  virtual Status bind(const LinearLimits& limits) noexcept = 0;
  virtual EpilogueMask epilogues() const noexcept = 0;

  // A null status if this kernel can run the weight, otherwise the reason, in words.
  virtual Status accepts(const WeightView& weight) const noexcept = 0;
  // Bytes that `pack` fills for this weight, 64-aligned; a slice is done when its call returns.
  virtual uint64_t packed_bytes(const WeightView& weight) const noexcept = 0;
  // There may be more slices than workers: they are taken in any order, several by one worker.
  virtual Status pack(const WeightView& weight, void* packed, Slice slice) noexcept = 0;
  virtual Status gather(const GatherCall& call, Slice slice) noexcept = 0;

  virtual Preparation preparation(const WeightView& weight) const noexcept = 0;
  // Bytes of prepared activations, which are aligned to 64. 0 = `prepare` is not called, x is read.
  virtual uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept = 0;
  // Slice i of n prepares rows ⌊rows·i/n⌋ … ⌊rows·(i+1)/n⌋ - 1 and reads no others: so a worker
  // prepares the rows that it made without a barrier in between.
  virtual Status prepare(const PrepareCall& call, Slice slice) noexcept = 0;
  // All jobs of one call are independent of each other: no two write the same element of y. Error
  // unsupported: an epilogue or a dtype that this kernel does not have; nothing was written.
  virtual Status run(std::span<const LinearJob> jobs, WorkRange range,
                     DeviceQueue queue) noexcept = 0;

  // Distinguishes this kernel's bits ("dense/avx512"): part of the numerics id. Static text.
  virtual std::string_view numerics() const noexcept = 0;

 protected:
  ~LinearKernel() = default;
};

}  // namespace tenon
