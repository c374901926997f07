// Weights in plain floating point (f32, f16, bf16) and in blocks (sdk/linear/quant_formats.h), on
// every instruction set. Weights stay as small as in the file and are widened in registers;
// activations are f32.
//
// The order of every sum is rising k, one product after the other, so a row's bits depend on the
// weights and on x alone: not on other rows, slices, or alignment. bf16 weights are widened and
// multiplied in f32, or, where the processor has fast bf16 dot products, multiplied in pairs with x
// rounded to bf16; numerics() tells them apart.
#include <tenon/linear.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/plain_weights.h>
#include <tenon/sdk/plugin.h>

#include <atomic>
#include <string>

#include "plugins/linear/dense/kernels.h"

namespace tenon::dense {
namespace {

constexpr uint32_t kMagic = 0x534e4544;  // "DENS"

const KernelSet& choose_kernels(const HostFacts& host) {
  const bool dots = !host.slow_bf16_dot;
  return sdk::best_kernels<KernelSet>(
      host, {{kCpuPortable, &kPortableKernels},
             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
             {kCpuAvx512, TENON_X86(&kAvx512Kernels)},
             {kCpuAvx512Bf16, dots ? TENON_X86(&kAvx512Bf16Kernels) : nullptr}});
}

bool parse_format(std::string_view name, Format& format, DType& dtype) {
  if (name == "f32") return format = Format::f32, dtype = DType::f32, true;
  if (name == "f16") return format = Format::f16, dtype = DType::f16, true;
  if (name == "bf16") return format = Format::bf16, dtype = DType::bf16, true;
  sdk::QuantFormat blocks;
  if (!sdk::parse_quant_format(name, blocks)) return false;
  return format = format_of(blocks), dtype = DType::u8, true;
}

using sdk::panel_count;

class Dense final : public LinearKernel {
 public:
  Dense(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : kernels_(choose_kernels(*host.facts)), scratch_(host, kernels_.scratch_bytes) {}

  Status accepts(const WeightView& weight) const noexcept override {
    return sdk::guard([&] { return check(weight); });
  }

  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) return 0;
    return sizeof(PackedHeader) + panel_count(weight.n_out, kernels_.panel_columns) *
                                      panel_bytes(format, kernels_.panel_columns, weight.k_in);
  }

  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    Status status = accepts(weight);
    if (!status.ok()) return status;
    PackedHeader header{.magic = kMagic, .panel_columns = kernels_.panel_columns};
    DType dtype;
    parse_format(weight.format, header.format, dtype);
    if (slice.index == 0) std::memcpy(packed, &header, sizeof(header));
    const bool pairs = header.format == Format::bf16 && kernels_.uses_pairs;
    (pairs ? needs_pair_rows_ : needs_f32_rows_).store(true, std::memory_order_relaxed);

    auto* panels = static_cast<std::byte*>(packed) + sizeof(PackedHeader);
    const auto mine = sdk::share_of(panel_count(weight.n_out, kernels_.panel_columns), slice);
    if (is_quant_format(header.format)) {
      const auto layout = quant_panels(header.format, kernels_.panel_columns, weight.k_in);
      for (uint32_t panel = mine.first; panel < mine.last; ++panel) {
        sdk::pack_quant_panel(weight, layout, panel, panels + panel * layout.panel_bytes());
      }
      return Status();
    }
    const TensorView& tensor = weight.parts[0];
    const PackSource source{
        .data = static_cast<const std::byte*>(tensor.data),
        .row_bytes = tensor.stride[0] * dtype_bits(dtype) / 8,
        .n_out = weight.n_out,
        .k_in = weight.k_in,
        .format = header.format,
        .row_order = weight.row_order.empty() ? nullptr : weight.row_order.data()};
    kernels_.pack(source, mine.first, mine.last, panels);
    return Status();
  }

  void unpack_row(const void* packed, uint32_t, uint32_t k_in, uint32_t row,
                  float* out) const noexcept override {
    const Format format = static_cast<const PackedHeader*>(packed)->format;
    const auto* panels = static_cast<const std::byte*>(packed) + sizeof(PackedHeader);
    if (is_quant_format(format)) {
      return sdk::unpack_quant_row(quant_panels(format, kernels_.panel_columns, k_in), panels, row,
                                   out);
    }
    kernels_.unpack_row(format, panels, k_in, row, out);
  }

  uint64_t prepared_bytes(uint32_t rows, uint32_t k_in) const noexcept override {
    return block_count(k_in) * rows * (kF32Stride + (kernels_.uses_pairs ? kPairStride : 0)) * 4;
  }

  void prepare(const float* x, uint64_t x_stride, uint32_t rows, uint32_t k_in, void* prepared,
               Slice slice) noexcept override {
    // A form that no packed weight of this kernel reads is left out; before any was packed, none.
    const bool pairs = needs_pair_rows_.load(std::memory_order_relaxed);
    const bool singles = needs_f32_rows_.load(std::memory_order_relaxed);
    auto* f32_rows = static_cast<float*>(prepared);
    const auto mine = sdk::share_of(rows, slice);
    kernels_.prepare({.x = x,
                      .x_stride = x_stride,
                      .rows = rows,
                      .k_in = k_in,
                      .first_row = mine.first,
                      .last_row = mine.last,
                      .f32_rows = singles || !pairs ? f32_rows : nullptr,
                      .pair_rows = kernels_.uses_pairs && (pairs || !singles)
                                       ? pair_rows(prepared, rows, k_in)
                                       : nullptr});
  }

  void run(std::span<const LinearJob> jobs, WorkRange range) noexcept override {
    sdk::for_each_share(jobs, kernels_.panel_columns, range,
                        [&](const LinearJob& job, sdk::PanelRange panels) {
                          run_panels(job, panels, scratch_.of(range.worker));
                        });
  }

  std::string_view numerics() const noexcept override { return kernels_.name; }

 private:
  static Status check(const WeightView& weight) {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) {
      return sdk::refuse_weight(
          weight, "has format \"" + std::string(weight.format) +
                      "\"; \"dense\" multiplies f32, f16, bf16, " + sdk::quant_formats_text() +
                      "; choose a linear plugin for that format, or \"auto\"");
    }
    if (is_quant_format(format)) return sdk::check_quant_weight(weight, "dense");
    return sdk::check_plain_weight(weight, dtype, "dense");
  }

  uint32_t* pair_rows(const void* prepared, uint32_t rows, uint32_t k_in) const {
    return static_cast<uint32_t*>(const_cast<void*>(prepared)) +
           block_count(k_in) * rows * kF32Stride;
  }

  void run_panels(const LinearJob& job, sdk::PanelRange panels, std::byte* scratch) const {
    const auto* packed = static_cast<const std::byte*>(job.packed);
    const auto* second = static_cast<const std::byte*>(job.packed_second);
    MultiplyTask task{sdk::panel_task(job, panels)};
    task.format = reinterpret_cast<const PackedHeader*>(packed)->format;
    task.panels = packed + sizeof(PackedHeader);
    task.second_panels = second == nullptr ? nullptr : second + sizeof(PackedHeader);
    task.f32_rows = static_cast<const float*>(job.prepared);
    task.pair_rows = pair_rows(job.prepared, job.x_rows, job.k_in);
    task.scratch = reinterpret_cast<float*>(scratch);
    kernels_.multiply(task);
  }

  const KernelSet& kernels_;
  const sdk::WorkerScratch scratch_;
  std::atomic<bool> needs_f32_rows_{false};
  std::atomic<bool> needs_pair_rows_{false};
};

constexpr Fact kProvides[] = {
    {.key = "weight.format", .words = "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q6_k q4_k q5_k"},
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.id = "dense";
  base.version = "0.1.0";
  base.summary = "multiplies weights of any format with activations in full precision";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 10; };
  return base;
}
constexpr PluginDescriptor kDense = sdk::with_facts(
    sdk::descriptor<LinearKernel, Dense, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::dense

TENON_PLUGIN_LIBRARY(&tenon::dense::kDense)
