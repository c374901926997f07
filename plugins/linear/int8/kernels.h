// What one instruction set offers to the int8 plugin, as plain data: the sources behind it are
// compiled with that set's flags and share no code with the rest. Each format has a source of its
// own in each set, made from multiply.cc.in: together they would take minutes to compile.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/quant_panels.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenon::int8 {

using Format = sdk::QuantFormat;
inline constexpr uint32_t kGroupValues = sdk::kQuantGroupValues;  // values with one scale

// Packed weights: a header of 64 bytes, then one panel after the other as sdk/linear/quant_panels.h
// lays them out, nibbles in halves, formats with blocks of several lengths as their base with as
// many groups behind a header as share a scale. Where dot products take unsigned times signed
// bytes, q8_0 is stored with an offset that makes its values unsigned; u8 the other way round where
// they take signed ones, or where a smaller set of the same numerics does; the other formats are.
struct PackedHeader {
  uint32_t magic = 0;
  Format format = Format::q8_0;
  uint32_t panel_columns = 0;
  uint32_t block_groups = 0;  // that share a scale, of formats without nested scales
  uint32_t reserved[2] = {};  // no byte is left to the compiler: equal weights, equal bytes
  // Bytes from this header to the order of columns, i32 [k_in], behind the panels; 0 = in turn.
  uint64_t order_at = 0;
  uint32_t more_reserved[8] = {};
};
inline const int32_t* order_of(const void* packed) noexcept {
  const uint64_t at = static_cast<const PackedHeader*>(packed)->order_at;
  if (at == 0) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(packed) + at);
}
static_assert(sizeof(PackedHeader) == 64);
static_assert(std::has_unique_object_representations_v<PackedHeader>);

// 32 values of one row of x: x = q · scale.
struct RowGroup {
  int8_t q[kGroupValues];
  float scale;
  float sum;  // of q, times scale
  // What a sum over the group starts with, for weights of q8_0 and q4_0: it takes back what their
  // unsigned values add. Of either half, for weights that are 32 too large.
  // Where bytes are signed and lanes of 16 bits are added, start[0] and half_start hold two numbers
  // of 16 bits: what sums of the even and of the odd pairs of k start with, for weights that are 16
  // too large, and 32 in either half (lane_starts in prepare.h).
  int32_t start[2];
  int32_t half_start[2];
  float half_sum[2];  // as `sum`
};
static_assert(sizeof(RowGroup) == 64);

// Prepared activations: [blocks][rows] of kRowBlockBytes. A block of weights (16 groups of 32
// columns, 17 KiB in q8_0) fits the first cache beside a dozen rows of x. The stride between rows
// is a constant, which the compiler folds into addresses, and an odd number of cache lines.
inline constexpr uint32_t kBlockGroups = 16;
inline constexpr uint32_t kRowBlockBytes = kBlockGroups * sizeof(RowGroup) + 64;
constexpr uint64_t block_count(uint32_t k_in) noexcept {
  return (uint64_t{k_in} / kGroupValues + kBlockGroups - 1) / kBlockGroups;
}

struct PrepareTask : sdk::RowTask {
  const int32_t* order = nullptr;  // [k_in] which value of x comes next; null: in turn
  std::byte* prepared = nullptr;
};

struct MultiplyTask : sdk::PanelTask {
  Format format = Format::q8_0;
  uint32_t block_groups = 1;  // PackedHeader
  bool asks_ahead = true;     // for the next block, also for a single row
  uint32_t row_lead = 0;      // bytes; where a single row does not (sdk::row_lead_bytes)
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
  const uint32_t* stored_offset = nullptr;  // what is added to a value of q8_0, q4_0; taken from u8
  void (*prepare)(const PrepareTask& task) = nullptr;
  void (*multiply[sdk::kQuantFormats])(const MultiplyTask& task) = {};
  GateFinish gate_finish;
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvxVnniKernels;
extern const KernelSet kAvx512VnniKernels;
#elif defined(__aarch64__)
extern const KernelSet kNeonKernels, kNeonDotprodKernels, kNeonI8mmKernels;
#endif

}  // namespace tenon::int8
