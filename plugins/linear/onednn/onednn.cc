// f32 and bf16 weights multiplied by oneDNN, a third party to hold our own kernels against.
//
// Each slice runs oneDNN on one thread over its own columns. oneDNN chooses how it sums by the
// number of rows, among other things, so a row's bits may depend on what is computed beside it:
// numerics.rows is "batch". bf16 weights meet x rounded to bf16, with sums in f32.
#include <tenon/linear.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/linear/host_calls.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/plain_weights.h>
#include <tenon/sdk/plugin.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugins/linear/onednn/layout.h"
#include "plugins/linear/onednn/library.h"
#include "plugins/linear/onednn/packer.h"
#include "plugins/linear/onednn/worker.h"

namespace tenon::onednn {
namespace {

constexpr sdk::HostLinear kCalls{"onednn", sdk::kPanelEpilogues};

bool parse_format(std::string_view name, Format& format, DType& dtype) {
  if (name == "f32") return format = Format::f32, dtype = DType::f32, true;
  if (name == "bf16") return format = Format::bf16, dtype = DType::bf16, true;
  return false;
}

class OneDnn {
 public:
  OneDnn(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : host_(host),
        row_ops_(sdk::best_kernels<RowOps>(*host.facts, {{kCpuPortable, &kPortableRowOps},
                                                         {kCpuAvx2, TENON_X86(&kAvx2RowOps)},
                                                         {kCpuAvx512, TENON_X86(&kAvx512RowOps)}})),
        scratch_(host) {
    const OneThread one_thread;
    limit_instruction_set(host);
    engine_ = dnnl::engine(dnnl::engine::kind::cpu, 0);
  }

  Status bind(const LinearLimits& limits) {
    Status status = kCalls.check(limits);
    if (status.ok()) status = scratch_.allocate(kScratchBytes, limits.workers);
    if (!status.ok()) return status;
    const OneThread one_thread;
    for (uint32_t i = 0; i < limits.workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(host_, engine_, row_ops_, scratch_.of(i)));
    }
    return Status();
  }
  EpilogueMask epilogues() const { return kCalls.epilogues; }

  Status accepts(const WeightView& weight) const {
    Layout layout;
    return check(weight, layout);
  }

  uint64_t packed_bytes(const WeightView& weight) const {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) return 0;
    return sizeof(PackedHeader) + sdk::panel_count(weight.n_out, kPanelColumns) *
                                      padded(weight.k_in) * kPanelColumns * value_bytes(format);
  }

  Status pack(const WeightView& weight, void* packed, Slice slice) {
    PackedHeader header;
    Status status = check(weight, header.layout);
    if (!status.ok()) return status;
    if (slice.index == 0) std::memcpy(packed, &header, sizeof(header));
    const OneThread one_thread;
    const auto mine = sdk::share_of(sdk::panel_count(weight.n_out, kPanelColumns), slice);
    Packer packer(engine_, header.layout);
    auto* panels = static_cast<std::byte*>(packed) + sizeof(header);
    for (uint32_t panel = mine.first; panel < mine.last; ++panel) {
      packer.pack(weight, panel, panels + panel * header.layout.panel_bytes());
    }
    return Status();
  }

  Status gather(const GatherCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    const Layout& layout = layout_of(call.packed);
    const auto mine = sdk::share_of(call.rows.size(), slice);
    for (uint32_t i = mine.first; i < mine.last; ++i) {
      layout.read_column(panel_of(call.packed, call.rows[i] / kPanelColumns),
                         call.rows[i] % kPanelColumns,
                         static_cast<float*>(call.out) + i * call.out_stride);
    }
    return Status();
  }

  // The key is the format: rows of x have the weight's.
  Preparation preparation(const WeightView& weight) const {
    Format format = Format::f32;
    DType dtype;
    parse_format(weight.format, format, dtype);
    return {static_cast<uint64_t>(format), weight.k_in};
  }

  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const {
    return rows * row_bytes(static_cast<Format>(preparation.key), preparation.k_in);
  }

  Status prepare(const PrepareCall& call, Slice slice) {
    Status status = kCalls.check(call);
    if (!status.ok()) return status;
    const auto format = static_cast<Format>(call.preparation.key);
    const uint32_t k_in = call.preparation.k_in;
    const auto mine = sdk::share_of(call.rows, slice);
    for (uint64_t r = mine.first; r < mine.last; ++r) {
      const uint64_t x_row = call.x_rows.empty() ? r : call.x_rows[r];
      row_ops_.prepare(static_cast<const float*>(call.x) + x_row * call.x_stride, k_in, format,
                       static_cast<std::byte*>(call.prepared) + r * row_bytes(format, k_in));
    }
    return Status();
  }

  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) {
    Status checked = kCalls.check(jobs, queue);
    if (!checked.ok()) return checked;
    const OneThread one_thread;
    sdk::for_each_share(jobs, kPanelColumns, range,
                        [&](const LinearJob& job, sdk::PanelRange panels) {
                          workers_[range.worker]->run(job, panels);
                        });
    return Status();
  }

  std::string_view numerics() const { return numerics_name(); }

 private:
  Status check(const WeightView& weight, Layout& layout) const {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) {
      return sdk::refuse_weight(weight, "has format \"" + std::string(weight.format) +
                                            "\"; \"onednn\" multiplies f32 and bf16; choose "
                                            "linear.plugin = \"dense\", or \"auto\"");
    }
    Status status = sdk::check_plain_weight(weight, dtype, "onednn");
    if (!status.ok()) return status;
    if (layout_for(format, weight.k_in, layout)) return Status();
    return sdk::refuse_weight(
        weight, "has format \"" + std::string(weight.format) + "\", for which " +
                    std::string(numerics_name()) +
                    " has no fast code on this processor (bf16 needs AVX-512); choose "
                    "linear.plugin = \"dense\", or \"auto\"");
  }

  // As find_layout, once for each format and length. [any]
  bool layout_for(Format format, uint32_t k_in, Layout& layout) const {
    const std::lock_guard lock(layouts_mutex_);
    auto known = layouts_.find({format, k_in});
    if (known == layouts_.end()) {
      const OneThread one_thread;
      FoundLayout found;
      found.usable = find_layout(engine_, format, k_in, found.layout);
      known = layouts_.emplace(std::pair(format, k_in), found).first;
    }
    layout = known->second.layout;
    return known->second.usable;
  }

  struct FoundLayout {
    Layout layout;
    bool usable = false;
  };

  const HostServices& host_;
  const RowOps& row_ops_;
  sdk::WorkerScratch scratch_;
  dnnl::engine engine_;
  std::vector<std::unique_ptr<Worker>> workers_;
  mutable std::mutex layouts_mutex_;
  mutable std::map<std::pair<Format, uint32_t>, FoundLayout> layouts_;
};

constexpr Fact kProvides[] = {
    {.key = "weight.format", .words = "f32 bf16"},
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "batch"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.id = "onednn";
  base.version = "0.1.0";
  base.summary = "multiplies f32 and bf16 weights with oneDNN, to compare with";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 1; };
  return base;
}
constexpr PluginDescriptor kOneDnn = sdk::with_facts(
    sdk::descriptor<LinearKernel, OneDnn, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::onednn

TENON_PLUGIN_LIBRARY(&tenon::onednn::kOneDnn)
