// Weights in plain floating point (f32, f16, bf16) and in blocks (sdk/linear/quant_formats.h), on
// every instruction set. Weights stay as small as in the file and are widened in registers;
// activations are f32.
//
// The order of every sum is rising k, one product after the other, so a row's bits depend on the
// weights and on x alone: not on other rows, slices, or alignment. bf16 and FP8 weights are widened
// and multiplied in f32, or, where the processor has fast bf16 dot products, multiplied in pairs
// with x rounded to bf16; numerics() tells them apart.
#include <tenon/linear.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/linear/host_calls.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/plain_weights.h>
#include <tenon/sdk/linear/quant_pack.h>
#include <tenon/sdk/plugin.h>

#include <cstring>
#include <string>
#include <utility>

#include "plugins/linear/dense/kernels.h"

namespace tenon::dense {
namespace {

constexpr uint32_t kMagic = 0x534e4544;  // "DENS"
constexpr sdk::HostLinear kCalls{"dense", sdk::kPanelEpilogues};

const KernelSet& choose_kernels(const HostFacts& host) {
  const bool dots = !host.slow_bf16_dot;
  return sdk::best_kernels<KernelSet>(
      host, {{kCpuPortable, &kPortableKernels},
             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
             {kCpuAvx512, TENON_X86(&kAvx512Kernels)},
             {kCpuAvx512Bf16, dots ? TENON_X86(&kAvx512Bf16Kernels) : nullptr},
             {kCpuNeon, TENON_ARM(&kNeonKernels)},
             {kCpuNeonBf16, dots ? TENON_ARM(&kNeonBf16Kernels) : nullptr}});
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

class Dense {
 public:
  Dense(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : kernels_(choose_kernels(*host.facts)),
        asks_ahead_(!sdk::fetches_by_itself(*host.facts)),
        scratch_(host) {}

  Status bind(const LinearLimits& limits) {
    Status status = kCalls.check(limits);
    return status.ok() ? scratch_.allocate(kernels_.scratch_bytes, limits.workers)
                       : std::move(status);
  }
  EpilogueMask epilogues() const { return kCalls.epilogues; }

  Status accepts(const WeightView& weight) const { return check(weight); }

  uint64_t packed_bytes(const WeightView& weight) const {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) return 0;
    return order_at(weight, header_of(format)) +
           (sdk::column_order(weight) == nullptr ? 0 : uint64_t{weight.k_in} * sizeof(int32_t));
  }

  Status pack(const WeightView& weight, void* packed, Slice slice) {
    Status status = accepts(weight);
    if (!status.ok()) return status;
    Format format;
    DType dtype;
    parse_format(weight.format, format, dtype);
    PackedHeader header = header_of(format);
    if (slice.index == 0) {
      if (const int32_t* order = sdk::column_order(weight)) {
        header.order_at = order_at(weight, header);
        std::memcpy(static_cast<std::byte*>(packed) + header.order_at, order,
                    uint64_t{weight.k_in} * sizeof(int32_t));
      }
      std::memcpy(packed, &header, sizeof(header));
    }

    auto* panels = static_cast<std::byte*>(packed) + sizeof(PackedHeader);
    const auto mine = sdk::share_of(panel_count(weight.n_out, kernels_.panel_columns), slice);
    if (is_quant_format(header.format)) {
      const auto layout = panels_of(header, weight.k_in);
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

  Status gather(const GatherCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    const auto mine = sdk::share_of(call.rows.size(), slice);
    for (uint32_t i = mine.first; i < mine.last; ++i) {
      unpack_row(call, call.rows[i], static_cast<float*>(call.out) + i * call.out_stride);
    }
    return Status();
  }

  Preparation preparation(const WeightView& weight) const {
    uint64_t key = static_cast<uint64_t>(form_for(weight));
    if (const uint64_t order = sdk::column_order_key(weight))
      key |= order * 2 * kOrdered | kOrdered;
    return {key, weight.k_in};
  }

  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const {
    return block_count(preparation.k_in) * rows * row_stride(form_of(preparation.key)) * 4;
  }

  Status prepare(const PrepareCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    PrepareTask task{sdk::row_task(call, slice)};
    task.form = form_of(call.preparation.key);
    if ((call.preparation.key & kOrdered) != 0) task.order = order_of(call.packed);
    task.prepared = call.prepared;
    kernels_.prepare(task);
    return Status();
  }

  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) {
    Status status = kCalls.check(jobs, queue);
    if (!status.ok()) return status;
    sdk::for_each_share(jobs, kernels_.panel_columns, range,
                        [&](const LinearJob& job, sdk::PanelRange panels) {
                          run_panels(job, panels, scratch_.of(range.worker));
                        });
    return Status();
  }

  std::string_view numerics() const { return kernels_.name; }
  const void* extension(std::string_view id) const {
    return id == kGateFinish ? &kernels_.gate_finish : nullptr;
  }

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

  // Bytes in front of a weight's order of columns, which ends it.
  uint64_t order_at(const WeightView& weight, const PackedHeader& header) const noexcept {
    return sizeof(PackedHeader) +
           panel_count(weight.n_out, kernels_.panel_columns) *
               panel_bytes(header.format, kernels_.panel_columns, weight.k_in, header.block_groups);
  }
  // Without an order of columns.
  PackedHeader header_of(Format format) const noexcept {
    PackedHeader header{.magic = kMagic, .format = format, .panel_columns = kernels_.panel_columns};
    if (is_quant_format(format)) {
      const sdk::QuantShape shape = sdk::quant_shape(quant_format(format));
      header.format = format_of(sdk::panel_format(shape.format));
      header.block_groups = shape.nested() ? 0 : shape.groups();
    }
    return header;
  }
  sdk::QuantPanels panels_of(const PackedHeader& header, uint32_t k_in) const noexcept {
    return quant_panels(header.format, kernels_.panel_columns, k_in, header.block_groups);
  }

  // Of the rows that a weight is multiplied with.
  RowForm form_for(const WeightView& weight) const noexcept {
    if (kernels_.uses_pairs && weight.format == "bf16") return RowForm::pairs;
    const bool crossed = kernels_.crosses_float8 && weight.format.starts_with("f8_");
    return crossed ? RowForm::crossed : RowForm::singles;
  }
  void unpack_row(const GatherCall& call, uint32_t row, float* out) const noexcept {
    const auto& header = *static_cast<const PackedHeader*>(call.packed);
    const auto* panels = static_cast<const std::byte*>(call.packed) + sizeof(PackedHeader);
    if (is_quant_format(header.format)) {
      return sdk::unpack_quant_row(panels_of(header, call.k_in), panels, row, order_of(call.packed),
                                   out);
    }
    kernels_.unpack_row(header.format, panels, call.k_in, row, out);
  }

  void run_panels(const LinearJob& job, sdk::PanelRange panels, std::byte* scratch) const {
    const auto* packed = static_cast<const std::byte*>(job.packed);
    const auto* second = static_cast<const std::byte*>(job.packed_second);
    MultiplyTask task{sdk::panel_task(job, panels)};
    const auto& header = *reinterpret_cast<const PackedHeader*>(packed);
    task.format = header.format;
    task.block_groups = header.block_groups;
    task.panels = packed + sizeof(PackedHeader);
    task.second_panels = second == nullptr ? nullptr : second + sizeof(PackedHeader);
    task.prepared = job.prepared;
    task.asks_ahead = asks_ahead_;
    task.scratch = reinterpret_cast<float*>(scratch);
    kernels_.multiply[static_cast<uint32_t>(task.format)](task);
  }

  const KernelSet& kernels_;
  const bool asks_ahead_;
  sdk::WorkerScratch scratch_;
};

constexpr Fact kProvides[] = {
    {.key = "weight.format", .words = "f32 f16 bf16"
#define TENON_FORMAT(name, ...) " " #name
#include <tenon/formats/weight_formats.def>
    },
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
