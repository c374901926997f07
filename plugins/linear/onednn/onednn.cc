// f32 and bf16 weights multiplied by oneDNN, a third party to hold our own kernels against.
//
// Each slice runs oneDNN on one thread over its own columns. oneDNN chooses how it sums by the
// number of rows, among other things, so a row's bits may depend on what is computed beside it:
// numerics.rows is "batch". bf16 weights meet x rounded to bf16, with sums in f32.
#include <tenon/linear.h>
#include <tenon/sdk/isa.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/plain_weights.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
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

bool parse_format(std::string_view name, Format& format, DType& dtype) {
  if (name == "f32") return format = Format::f32, dtype = DType::f32, true;
  if (name == "bf16") return format = Format::bf16, dtype = DType::bf16, true;
  return false;
}

class OneDnn final : public LinearKernel {
 public:
  OneDnn(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : host_(host),
        row_ops_(sdk::best_kernels<RowOps>(*host.facts, {{kCpuPortable, &kPortableRowOps},
                                                         {kCpuAvx2, TENON_X86(&kAvx2RowOps)},
                                                         {kCpuAvx512, TENON_X86(&kAvx512RowOps)}})),
        scratch_(host, kScratchBytes) {
    const OneThread one_thread;
    limit_instruction_set(host);
    engine_ = dnnl::engine(dnnl::engine::kind::cpu, 0);
    for (uint32_t i = 0; i < scratch_.workers(); ++i) {
      workers_.push_back(std::make_unique<Worker>(host, engine_, row_ops_, scratch_.of(i)));
    }
  }

  Status accepts(const WeightView& weight) const noexcept override {
    return sdk::guard([&] {
      Layout layout;
      return check(weight, layout);
    });
  }

  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) return 0;
    return sizeof(PackedHeader) + sdk::panel_count(weight.n_out, kPanelColumns) *
                                      padded(weight.k_in) * kPanelColumns * value_bytes(format);
  }

  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    return sdk::guard([&] {
      PackedHeader header;
      Status status = check(weight, header.layout);
      if (!status.ok()) return status;
      if (slice.index == 0) std::memcpy(packed, &header, sizeof(header));
      (header.layout.format == Format::f32 ? needs_f32_rows_ : needs_bf16_rows_).store(true);
      const OneThread one_thread;
      const auto mine = sdk::share_of(sdk::panel_count(weight.n_out, kPanelColumns), slice);
      Packer packer(engine_, header.layout);
      auto* panels = static_cast<std::byte*>(packed) + sizeof(header);
      for (uint32_t panel = mine.first; panel < mine.last; ++panel) {
        packer.pack(weight, panel, panels + panel * header.layout.panel_bytes());
      }
      return Status();
    });
  }

  void unpack_row(const void* packed, uint32_t, uint32_t, uint32_t row,
                  float* out) const noexcept override {
    const Layout& layout = layout_of(packed);
    layout.read_column(panel_of(packed, row / kPanelColumns), row % kPanelColumns, out);
  }

  uint64_t prepared_bytes(uint32_t rows, uint32_t k_in) const noexcept override {
    return rows * (row_bytes(Format::f32, k_in) + row_bytes(Format::bf16, k_in));
  }

  void prepare(const float* x, uint64_t x_stride, uint32_t rows, uint32_t k_in, void* prepared,
               Slice slice) noexcept override {
    const auto mine = sdk::share_of(rows, slice);
    for (uint64_t r = mine.first; r < mine.last; ++r) {
      const auto row = [&](Format format) {
        return static_cast<std::byte*>(prepared) + prepared_row(format, rows, k_in, r);
      };
      RowForms forms;
      if (needs_f32_rows_) forms.f32 = reinterpret_cast<float*>(row(Format::f32));
      if (needs_bf16_rows_) forms.bf16 = reinterpret_cast<uint16_t*>(row(Format::bf16));
      row_ops_.prepare(x + r * x_stride, k_in, forms);
    }
  }

  void run(std::span<const LinearJob> jobs, WorkRange range) noexcept override {
    const OneThread one_thread;
    sdk::for_each_share(jobs, kPanelColumns, range,
                        [&](const LinearJob& job, sdk::PanelRange panels) {
                          run_panels(job, panels, range.worker);
                        });
  }

  std::string_view numerics() const noexcept override { return numerics_name(); }

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

  // A failure cannot be told from here but in the results.
  void run_panels(const LinearJob& job, sdk::PanelRange panels, uint32_t worker) noexcept {
    const Status status = sdk::guard([&] {
      workers_[worker]->run(job, panels);
      return Status();
    });
    if (status.ok()) return;
    const uint64_t rows = job.rows.empty() ? job.x_rows : job.rows.size();
    const uint64_t last = std::min(uint64_t{panels.last} * kPanelColumns, uint64_t{job.n_out});
    for (uint64_t r = 0; r < rows; ++r) {
      std::fill(job.y + r * job.y_stride + uint64_t{panels.first} * kPanelColumns,
                job.y + r * job.y_stride + last, NAN);
    }
    host_.log(host_.context, LogLevel::error, status.message());
  }

  struct FoundLayout {
    Layout layout;
    bool usable = false;
  };

  const HostServices& host_;
  const RowOps& row_ops_;
  const sdk::WorkerScratch scratch_;
  dnnl::engine engine_;
  std::vector<std::unique_ptr<Worker>> workers_;
  mutable std::mutex layouts_mutex_;
  mutable std::map<std::pair<Format, uint32_t>, FoundLayout> layouts_;
  std::atomic<bool> needs_f32_rows_{false};
  std::atomic<bool> needs_bf16_rows_{false};
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
