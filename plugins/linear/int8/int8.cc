// Weights of 2 to 8 bits in blocks times activations of 8 bits, in integer dot products.
//
// Rows of x are quantised once, with a scale for each 32 values as the weights have; sums over 32
// values are exact integers, and they are added in f32 in rising k. So a row's bits depend on the
// weights and on x alone. The result differs from that of full-precision activations by about 0.6 %
// of its size (docs/strategies/linear-kernels.md); "dense" does without that.
#include <tenon/linear.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/linear/host_calls.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/quant_pack.h>
#include <tenon/sdk/plugin.h>

#include <cstring>
#include <utility>

#include "plugins/linear/int8/kernels.h"

namespace tenon::int8 {
namespace {

constexpr uint32_t kMagic = 0x38544e49;  // "INT8"
constexpr sdk::HostLinear kCalls{"int8", sdk::kPanelEpilogues};

const KernelSet& choose_kernels(const HostFacts& host) {
  return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
                                             {kCpuAvxVnni, TENON_X86(&kAvxVnniKernels)},
                                             {kCpuAvx512Vnni, TENON_X86(&kAvx512VnniKernels)},
                                             {kCpuNeon, TENON_ARM(&kNeonKernels)},
                                             {kCpuNeonDotprod, TENON_ARM(&kNeonDotprodKernels)},
                                             {kCpuNeonI8mm, TENON_ARM(&kNeonI8mmKernels)}});
}

class Int8 {
 public:
  Int8(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : kernels_(choose_kernels(*host.facts)),
        asks_ahead_(!sdk::fetches_by_itself(*host.facts)),
        row_lead_(sdk::row_lead_bytes(*host.facts)),
        scratch_(host) {}

  Status bind(const LinearLimits& limits) {
    Status status = kCalls.check(limits);
    return status.ok() ? scratch_.allocate(kernels_.scratch_bytes, limits.workers)
                       : std::move(status);
  }
  EpilogueMask epilogues() const { return kCalls.epilogues; }

  Status accepts(const WeightView& weight) const {
    return sdk::check_quant_weight(weight, "int8", true);
  }

  uint64_t packed_bytes(const WeightView& weight) const {
    Format format;
    if (!sdk::parse_quant_format(weight.format, format)) return 0;
    return order_at(weight, header_of(format)) +
           (sdk::column_order(weight) == nullptr ? 0 : uint64_t{weight.k_in} * sizeof(int32_t));
  }

  Status pack(const WeightView& weight, void* packed, Slice slice) {
    Status status = accepts(weight);
    if (!status.ok()) return status;
    Format format = Format::q8_0;
    sdk::parse_quant_format(weight.format, format);
    PackedHeader header = header_of(format);
    if (slice.index == 0) {
      if (const int32_t* order = sdk::column_order(weight)) {
        header.order_at = order_at(weight, header);
        std::memcpy(static_cast<std::byte*>(packed) + header.order_at, order,
                    uint64_t{weight.k_in} * sizeof(int32_t));
      }
      std::memcpy(packed, &header, sizeof(header));
    }
    const sdk::QuantPanels panels = panels_of(header, weight.k_in);
    const auto mine = sdk::share_of(sdk::panel_count(weight.n_out, kernels_.panel_columns), slice);
    for (uint32_t panel = mine.first; panel < mine.last; ++panel) {
      sdk::pack_quant_panel(
          weight, panels, panel,
          static_cast<std::byte*>(packed) + sizeof(PackedHeader) + panel * panels.panel_bytes());
    }
    return Status();
  }

  Status gather(const GatherCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    const auto& header = *static_cast<const PackedHeader*>(call.packed);
    const auto* panels = static_cast<const std::byte*>(call.packed) + sizeof(PackedHeader);
    const auto mine = sdk::share_of(call.rows.size(), slice);
    for (uint32_t i = mine.first; i < mine.last; ++i) {
      sdk::unpack_quant_row(panels_of(header, call.k_in), panels, call.rows[i],
                            order_of(call.packed),
                            static_cast<float*>(call.out) + i * call.out_stride);
    }
    return Status();
  }

  Preparation preparation(const WeightView& weight) const {
    return {sdk::column_order_key(weight), weight.k_in};
  }

  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const {
    return block_count(preparation.k_in) * rows * kRowBlockBytes;
  }

  Status prepare(const PrepareCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    PrepareTask task{sdk::row_task(call, slice)};
    if (call.preparation.key != 0) task.order = order_of(call.packed);
    task.prepared = static_cast<std::byte*>(call.prepared);
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
  // Without an order of columns.
  PackedHeader header_of(Format format) const {
    const sdk::QuantShape shape = sdk::quant_shape(format);
    return {.magic = kMagic,
            .format = sdk::panel_format(format),
            .panel_columns = kernels_.panel_columns,
            .block_groups = shape.nested() ? 0 : shape.groups()};
  }
  sdk::QuantPanels panels_of(const PackedHeader& header, uint32_t k_in) const {
    uint32_t offset = 0;
    if (header.format == Format::q8_0) offset = kernels_.stored_offset[0];
    if (header.format == Format::u8_32) offset = kernels_.stored_offset[2];
    return {.format = header.format,
            .columns = kernels_.panel_columns,
            .k_in = k_in,
            .offset = offset,
            .header_groups = header.block_groups};
  }
  // Bytes in front of a weight's order of columns, which ends it.
  uint64_t order_at(const WeightView& weight, const PackedHeader& header) const {
    return sizeof(PackedHeader) + sdk::panel_count(weight.n_out, kernels_.panel_columns) *
                                      panels_of(header, weight.k_in).panel_bytes();
  }

  void run_panels(const LinearJob& job, sdk::PanelRange panels, std::byte* scratch) const {
    const auto* packed = static_cast<const std::byte*>(job.packed);
    const auto* second = static_cast<const std::byte*>(job.packed_second);
    const auto& header = *reinterpret_cast<const PackedHeader*>(packed);
    MultiplyTask task{sdk::panel_task(job, panels)};
    task.format = header.format;
    task.block_groups = header.block_groups;
    task.asks_ahead = asks_ahead_;
    task.row_lead = row_lead_;
    task.panel_bytes = panels_of(header, job.k_in).panel_bytes();
    task.panels = packed + sizeof(PackedHeader);
    task.second_panels = second == nullptr ? nullptr : second + sizeof(PackedHeader);
    task.prepared = static_cast<const std::byte*>(job.prepared);
    task.scratch = scratch;
    kernels_.multiply[static_cast<uint32_t>(task.format)](task);
  }

  const KernelSet& kernels_;
  const bool asks_ahead_;
  const uint32_t row_lead_;
  sdk::WorkerScratch scratch_;
};

// All formats but FP8, with a space before each.
#define TENON_WORD_integers(name) " " #name
#define TENON_WORD_levels(name) " " #name
#define TENON_WORD_floats(name)
#define TENON_FORMAT(name, values, bytes, scales, at, codes, ...) TENON_WORD_##codes(name)
constexpr std::string_view kFormats =
#include <tenon/formats/weight_formats.def>
    ;

constexpr Fact kProvides[] = {
    {.key = "weight.format", .words = kFormats.substr(1)},
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.id = "int8";
  base.version = "0.1.0";
  base.summary = "multiplies weights of blocks with activations of 8 bits";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 20; };
  return base;
}
constexpr PluginDescriptor kInt8 = sdk::with_facts(
    sdk::descriptor<LinearKernel, Int8, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::int8

TENON_PLUGIN_LIBRARY(&tenon::int8::kInt8)
