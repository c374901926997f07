// LinearKernel: y = x · Wᵀ for weights of one or more formats.
//
// Weights cross the boundary once, as borrowed views of the checkpoint; the kernel packs them into
// bytes that the executor allocates and owns. The same packed bytes serve one row and thousands.
// Activations are f32; `prepare` brings them into the form the kernel multiplies with (bf16, int8
// with scales, …) once for all matrices that read them.
//
// A kernel promises the same bits for a row whatever the number of rows, slices and ranges: each
// sum runs over K in an order that depends on shape and format alone, slices split columns or rows,
// never K (else it states the fact numerics.rows = batch).
//
// Threads: `accepts`, `packed_bytes`, `prepared_bytes` are [any]; `pack`, `prepare`, `run` are
// [worker], called by all slices or ranges with equal arguments. The executor puts barriers between
// them. Ranges of one `run` may be of any size and come in any order; two calls of one worker never
// overlap, so scratch memory can be a worker's. For few rows an executor may let every worker
// prepare a copy of its own, as the only slice; jobs then differ in `prepared` alone, which holds
// the same bytes.
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

enum class Epilogue : uint8_t {
  store = 0,     // y  = x·Wᵀ (+ bias)
  add = 1,       // y += x·Wᵀ (+ bias)                    residual connection
  silu_mul = 2,  // y  = silu(x·Wᵀ) · (x·W₂ᵀ)             gated MLP; W₂ in `packed_second`
};

// Epilogues that add a bias use the f32 value bias[column]; sums are finished before it is added.
struct LinearJob {
  const void* packed = nullptr;
  const void* packed_second = nullptr;  // silu_mul only; same shape and format as `packed`
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  const void* prepared = nullptr;       // what `prepare` made of x [x_rows, k_in]
  uint32_t x_rows = 0;                  // rows that `prepare` was given
  std::span<const uint32_t> rows = {};  // which of them, in output order; empty = all
  float* y = nullptr;                   // [rows, n_out], row stride y_stride
  uint64_t y_stride = 0;                // elements
  const float* bias = nullptr;          // [n_out] or null
  Epilogue epilogue = Epilogue::store;
};

// Parts [first, last) of `count` equal parts of a call's work. Workers fetch such ranges as they
// become free, so one worker may be handed several; each part is handed out once. `worker` is the
// number of the one that calls, below HostFacts::workers.
struct WorkRange {
  uint32_t first = 0;
  uint32_t last = 1;
  uint32_t count = 1;
  uint32_t worker = 0;
};

class LinearKernel {
 public:
  // Null status when this kernel can run the weight; else the reason, in words.
  virtual Status accepts(const WeightView& weight) const noexcept = 0;
  // Bytes that `pack` fills for this weight; their address is aligned to 64.
  virtual uint64_t packed_bytes(const WeightView& weight) const noexcept = 0;
  // Slices may be more than workers, in any order, several by one worker: pieces that workers take
  // as they get done.
  virtual Status pack(const WeightView& weight, void* packed, Slice slice) noexcept = 0;
  // Row `row` of a packed weight as f32 [k_in]: embeddings are read from a tied head this way.
  virtual void unpack_row(const void* packed, uint32_t n_out, uint32_t k_in, uint32_t row,
                          float* out) const noexcept = 0;

  // Bytes of prepared activations; their address is aligned to 64.
  virtual uint64_t prepared_bytes(uint32_t rows, uint32_t k_in) const noexcept = 0;
  // x: f32 [rows, k_in], row stride x_stride elements. Slice i of n prepares rows ⌊rows·i/n⌋ …
  // ⌊rows·(i+1)/n⌋ - 1 and reads no others: so a worker prepares the rows that it made without a
  // barrier in between.
  virtual void prepare(const float* x, uint64_t x_stride, uint32_t rows, uint32_t k_in,
                       void* prepared, Slice slice) noexcept = 0;
  // All jobs of one call are independent of each other. Parts share out the columns of all jobs.
  virtual void run(std::span<const LinearJob> jobs, WorkRange range) noexcept = 0;

  // What distinguishes this kernel's bits from another's, e.g. "dense/avx512": part of the
  // numerics id of every report. Static text.
  virtual std::string_view numerics() const noexcept = 0;

 protected:
  ~LinearKernel() = default;
};

}  // namespace tenon
