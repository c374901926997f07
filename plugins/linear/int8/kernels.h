// What one instruction set offers to the int8 plugin, as plain data: the sources behind it are
// compiled with that set's flags and share no code with the rest. Each format has a source of its
// own in each set, made from multiply.cc.in: together they would take minutes to compile.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/quant_panels.h>

#include <cstddef>
#include <cstdint>

namespace tenon::int8 {

using Format = sdk::QuantFormat;
inline constexpr uint32_t kGroupValues = sdk::kQuantGroupValues;  // values with one scale

// Packed weights: a header of 64 bytes, then one panel after the other as sdk/linear/quant_panels.h
// lays them out, nibbles in halves. Where dot products take unsigned times signed bytes, q8_0 is
// stored with an offset that makes its values unsigned; the other formats are.
struct PackedHeader {
  uint32_t magic = 0;
  Format format = Format::q8_0;
  uint32_t panel_columns = 0;
  uint32_t reserved[13] = {};
};
static_assert(sizeof(PackedHeader) == 64);

// 32 values of one row of x: x = q · scale.
struct RowGroup {
  int8_t q[kGroupValues];
  float scale;
  // What a sum over the group starts with, for weights of q8_0 and q4_0: it takes back what their
  // unsigned values add. For q6_k, of either half.
  int32_t start[2];
  int32_t half_start[2];
  float sum;  // of q, times scale
};
static_assert(sizeof(RowGroup) == 56);

// Prepared activations: [blocks][rows] of kRowBlockBytes. A block of weights (16 groups of 32
// columns, 17 KiB in q8_0) fits the first cache beside a dozen rows of x. The stride between rows
// is a constant, which the compiler folds into addresses, and an odd number of cache lines.
inline constexpr uint32_t kBlockGroups = 16;
inline constexpr uint32_t kRowBlockBytes = kBlockGroups * sizeof(RowGroup) + 64;
constexpr uint64_t block_count(uint32_t k_in) noexcept {
  return (uint64_t{k_in} / kGroupValues + kBlockGroups - 1) / kBlockGroups;
}

struct PrepareTask {
  const float* x = nullptr;
  uint64_t x_stride = 0;
  const uint32_t* x_rows = nullptr;  // [rows] which rows of x; null: the first ones
  uint32_t rows = 0;
  uint32_t k_in = 0;
  uint32_t first_row = 0;
  uint32_t last_row = 0;
  std::byte* prepared = nullptr;
};

struct MultiplyTask : sdk::PanelTask {
  Format format = Format::q8_0;
  uint64_t panel_bytes = 0;
  const std::byte* panels = nullptr;         // behind the header
  const std::byte* second_panels = nullptr;  // silu_mul only
  const std::byte* prepared = nullptr;
  std::byte* scratch = nullptr;  // KernelSet::scratch_bytes, aligned to 64
};

struct KernelSet {
  const char* name = nullptr;
  uint32_t panel_columns = 0;
  uint64_t scratch_bytes = 0;               // one worker's
  const uint32_t* stored_offset = nullptr;  // q8_0, q4_0: what is added to a value
  void (*prepare)(const PrepareTask& task) = nullptr;
  void (*multiply[sdk::kQuantFormats])(const MultiplyTask& task) = {};
  GateFinish gate_finish;
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512VnniKernels;
#endif

}  // namespace tenon::int8
