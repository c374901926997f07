// What one instruction set offers to the dense plugin, as plain data: the sources behind it are
// compiled with that set's flags and share no code with the rest. Each format has a source of its
// own in each set, made from multiply.cc.in: together they would take minutes to compile.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/quant_panels.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenon::dense {

// Quantised formats follow in the order of sdk::QuantFormat.
enum class Format : uint32_t { f32 = 0, f16 = 1, bf16 = 2, blocks = 3 };
inline constexpr uint32_t kFormats = 3 + sdk::kQuantFormats;

constexpr bool is_quant_format(Format format) noexcept {
  return format >= Format::blocks;
}
constexpr Format format_of(sdk::QuantFormat format) noexcept {
  return static_cast<Format>(static_cast<uint32_t>(Format::blocks) + static_cast<uint32_t>(format));
}
constexpr sdk::QuantFormat quant_format(Format format) noexcept {
  return static_cast<sdk::QuantFormat>(static_cast<uint32_t>(format) -
                                       static_cast<uint32_t>(Format::blocks));
}
// q4_0 is read by a table of 16 signed values: nibbles in turn, in two's complement.
// block_groups: as in PackedHeader.
constexpr sdk::QuantPanels quant_panels(Format format, uint32_t columns, uint32_t k_in,
                                        uint32_t block_groups) noexcept {
  const bool table = quant_format(format) == sdk::QuantFormat::q4_0;
  return {.format = sdk::panel_format(quant_format(format)),
          .columns = columns,
          .k_in = k_in,
          .order = table ? sdk::NibbleOrder::in_turn : sdk::NibbleOrder::halves,
          .offset = table ? 8u : 0u,
          .header_groups = block_groups};
}

// Packed weights: a header of 64 bytes, then one panel after the other. A panel holds
// `panel_columns` rows of W (columns of y) side by side, k by k, so that one row of x walks it from
// front to back:
//   f32   [k_in]            [panel_columns] f32
//   f16   [k_in]            [panel_columns] f16
//   bf16  [(k_in + 1) / 2]  [panel_columns] {w[2i], w[2i + 1]} bf16, zero behind an odd end
//   quantised formats       as sdk/linear/quant_panels.h
// Columns beyond n_out are zero. Panels start at multiples of 64 bytes.
struct PackedHeader {
  uint32_t magic = 0;
  Format format = Format::f32;
  uint32_t panel_columns = 0;
  // Groups of 32 that share a header, of formats without nested scales; 0: the format says it.
  uint32_t block_groups = 0;
  // Bytes from this header to the order of columns, i32 [k_in], behind the panels; 0 = in turn.
  uint64_t order_at = 0;
  // No byte is left to the compiler: equal weights are packed into equal bytes.
  uint32_t reserved[10] = {};
};
inline const int32_t* order_of(const void* packed) noexcept {
  const uint64_t at = static_cast<const PackedHeader*>(packed)->order_at;
  if (at == 0) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(packed) + at);
}
static_assert(sizeof(PackedHeader) == 64);
static_assert(std::has_unique_object_representations_v<PackedHeader>);

using sdk::round_up;
constexpr uint64_t panel_bytes(Format format, uint32_t columns, uint32_t k_in,
                               uint32_t block_groups = 0) noexcept {
  if (is_quant_format(format)) {
    return quant_panels(format, columns, k_in, block_groups).panel_bytes();
  }
  const uint64_t values = uint64_t{columns} * (format == Format::bf16 ? round_up(k_in, 2) : k_in);
  return round_up(values * (format == Format::f32 ? 4 : 2), 64);
}

// Prepared activations, in blocks of k: [blocks][rows][stride], as f32 or, for weights multiplied
// by bf16 dot products, as pairs of bf16; `crossed`: of each four values 0 and 2, then 1 and 3. A
// block of 256 values of 32 columns, 32 KiB widened, fits the first cache beside 12 rows of x.
// Strides are constants, which the compiler folds into addresses, and odd numbers of cache lines,
// so that rows side by side never share a cache set.
enum class RowForm : uint64_t { singles = 0, pairs = 1, crossed = 2 };
// A preparation's key: the form, and the order of the columns (sdk::column_order_key) above
// kOrdered.
inline constexpr uint64_t kOrdered = 4;
constexpr RowForm form_of(uint64_t key) noexcept {
  return static_cast<RowForm>(key % kOrdered);
}
inline constexpr uint32_t kBlockValues = 256;
inline constexpr uint32_t kF32Stride = kBlockValues + 16;       // in f32
inline constexpr uint32_t kPairStride = kBlockValues / 2 + 16;  // in pairs
constexpr uint32_t row_stride(RowForm form) noexcept {
  return form == RowForm::singles ? kF32Stride : kPairStride;
}
constexpr uint64_t block_count(uint32_t k_in) noexcept {
  return (uint64_t{k_in} + kBlockValues - 1) / kBlockValues;
}

struct PackSource {
  const std::byte* data = nullptr;  // any alignment
  uint64_t row_bytes = 0;
  uint32_t n_out = 0;
  uint32_t k_in = 0;
  Format format = Format::f32;
  const uint32_t* row_order = nullptr;  // [n_out]; null: in order
};

struct PrepareTask : sdk::RowTask {
  RowForm form = RowForm::singles;
  const int32_t* order = nullptr;  // [k_in] which value of x comes next; null: in turn
  void* prepared = nullptr;
};

struct MultiplyTask : sdk::PanelTask {
  Format format = Format::f32;
  uint32_t block_groups = 0;                 // PackedHeader
  const std::byte* panels = nullptr;         // behind the header
  const std::byte* second_panels = nullptr;  // silu_mul only
  const void* prepared = nullptr;            // in the form that the weights' format takes
  float* scratch = nullptr;                  // KernelSet::scratch_bytes, aligned to 64
  bool asks_ahead = true;                    // for what comes next, also for a single row
};

// One tile of the micro-kernel: a block of k, some rows of x and some panels. `W` in tile.h says
// what the pointers lead to.
struct TileTask {
  const std::byte* panel = nullptr;  // the block's first step in the first panel
  uint64_t panel_bytes = 0;          // from one panel to the next
  uint32_t block_groups = 0;         // PackedHeader
  const void* x = nullptr;           // the first row's first step; rows kXStride apart
  uint32_t steps = 0;
  float* sums = nullptr;     // [panels][rows][panel_columns]
  uint64_t sums_stride = 0;  // floats from one panel's to the next
  bool resume = false;       // continue the sums found there
  // How far ahead of their use a tile that has its panels to itself asks for lines; 0: it does not.
  uint32_t near_bytes = 2048;
  // Cache lines to ask for while this block is multiplied by tiles that share it.
  const std::byte* ahead = nullptr;
  uint32_t ahead_lines = 0;
};
using TileFunction = void (*)(const TileTask& task);

struct KernelSet {
  const char* name = nullptr;
  uint32_t panel_columns = 0;
  uint64_t scratch_bytes = 0;   // one worker's
  bool uses_pairs = false;      // bf16 weights are multiplied with rows of bf16 pairs
  bool crosses_float8 = false;  // FP8 weights as well, in an order of their own
  void (*pack)(const PackSource& source, uint32_t first_panel, uint32_t last_panel,
               std::byte* panels) = nullptr;
  void (*unpack_row)(Format format, const std::byte* panels, uint32_t k_in, uint32_t row,
                     float* out) = nullptr;
  void (*prepare)(const PrepareTask& task) = nullptr;
  void (*multiply[kFormats])(const MultiplyTask& task) = {};
  GateFinish gate_finish;
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
extern const KernelSet kAvx512Bf16Kernels;
#elif defined(__aarch64__)
extern const KernelSet kNeonKernels;
extern const KernelSet kNeonBf16Kernels;
#endif

}  // namespace tenon::dense
