// Weights in plain floating point: f32, f16 and bf16, on every instruction set.
//
// The order of every sum is rising k, one product after the other, so a row's bits depend on the
// weights and on x alone: not on other rows, slices, or alignment. bf16 weights are widened and
// multiplied in f32, or, where the processor has fast bf16 dot products, multiplied in pairs with x
// rounded to bf16; numerics() tells them apart.
#include <tenon/linear.h>
#include <tenon/sdk/plugin.h>

#include <atomic>
#include <string>

#include "plugins/linear/dense/kernels.h"

namespace tenon::dense {
namespace {

constexpr uint32_t kMagic = 0x534e4544;                  // "DENS"
constexpr uint64_t kMaxWeightBytes = uint64_t{1} << 46;  // beyond any machine's memory

const KernelSet& choose_kernels(const HostFacts& host) {
#if defined(__x86_64__)
  if (host.cpu_isa >= CpuIsa::avx512_bf16 && !host.slow_bf16_dot) return kAvx512Bf16Kernels;
  if (host.cpu_isa >= CpuIsa::avx512) return kAvx512Kernels;
  if (host.cpu_isa >= CpuIsa::avx2) return kAvx2Kernels;
#else
  (void)host;
#endif
  return kPortableKernels;
}

bool parse_format(std::string_view name, Format& format, DType& dtype) {
  if (name == "f32") return format = Format::f32, dtype = DType::f32, true;
  if (name == "f16") return format = Format::f16, dtype = DType::f16, true;
  if (name == "bf16") return format = Format::bf16, dtype = DType::bf16, true;
  return false;
}

Status refuse(const WeightView& weight, std::string_view found) {
  return Status::error(StatusCode::unsupported,
                       "weight \"" + std::string(weight.name) + "\" " + std::string(found));
}

uint64_t panel_count(uint32_t n_out, uint32_t columns) {
  return (uint64_t{n_out} + columns - 1) / columns;
}

// Part `index` of `count` equal parts of `total`, as its first element.
uint64_t share_begin(uint64_t total, uint32_t index, uint32_t count) {
  return total / count * index + total % count * index / count;
}

class Dense final : public LinearKernel {
 public:
  Dense(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : host_(host),
        kernels_(choose_kernels(*host.facts)),
        workers_(host.facts->workers == 0 ? 1 : host.facts->workers) {
    scratch_stride_ = round_up(kernels_.scratch_bytes, 4096);
    scratch_ = static_cast<std::byte*>(
        host.allocate(host.context, Space{}, scratch_stride_ * workers_, 4096));
    if (scratch_ == nullptr) throw std::bad_alloc();
  }
  Dense(const Dense&) = delete;
  Dense& operator=(const Dense&) = delete;
  ~Dense() { host_.free(host_.context, Space{}, scratch_); }

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

    const TensorView& tensor = weight.parts[0];
    const PackSource source{.data = static_cast<const std::byte*>(tensor.data),
                            .row_bytes = tensor.stride[0] * dtype_bits(dtype) / 8,
                            .n_out = weight.n_out,
                            .k_in = weight.k_in,
                            .format = header.format};
    const uint64_t panels = panel_count(weight.n_out, kernels_.panel_columns);
    kernels_.pack(source, static_cast<uint32_t>(share_begin(panels, slice.index, slice.count)),
                  static_cast<uint32_t>(share_begin(panels, slice.index + 1, slice.count)),
                  static_cast<std::byte*>(packed) + sizeof(PackedHeader));
    return Status();
  }

  void unpack_row(const void* packed, uint32_t, uint32_t k_in, uint32_t row,
                  float* out) const noexcept override {
    kernels_.unpack_row(static_cast<const PackedHeader*>(packed)->format,
                        static_cast<const std::byte*>(packed) + sizeof(PackedHeader), k_in, row,
                        out);
  }

  uint64_t prepared_bytes(uint32_t rows, uint32_t k_in) const noexcept override {
    const uint64_t pairs = kernels_.uses_pairs ? rows * pair_row_stride(k_in) : 0;
    return (rows * f32_row_stride(k_in) + pairs) * 4;
  }

  void prepare(const float* x, uint64_t x_stride, uint32_t rows, uint32_t k_in, void* prepared,
               Slice slice) noexcept override {
    // A form that no packed weight of this kernel reads is left out; before any was packed, none.
    const bool pairs = needs_pair_rows_.load(std::memory_order_relaxed);
    const bool singles = needs_f32_rows_.load(std::memory_order_relaxed);
    auto* f32_rows = static_cast<float*>(prepared);
    kernels_.prepare(
        {.x = x,
         .x_stride = x_stride,
         .k_in = k_in,
         .first_row = static_cast<uint32_t>(share_begin(rows, slice.index, slice.count)),
         .last_row = static_cast<uint32_t>(share_begin(rows, slice.index + 1, slice.count)),
         .f32_rows = singles || !pairs ? f32_rows : nullptr,
         .pair_rows = kernels_.uses_pairs && (pairs || !singles) ? pair_rows(prepared, rows, k_in)
                                                                 : nullptr});
  }

  void run(std::span<const LinearJob> jobs, Slice slice) noexcept override {
    const Slice mine{slice.index, slice.count < workers_ ? slice.count : workers_};
    if (mine.index >= mine.count) return;
    uint64_t total = 0;
    for (const LinearJob& job : jobs) total += job_cost(job);
    // Panels belong to the slice in whose share of the total they begin.
    const uint64_t begin = share_begin(total, mine.index, mine.count);
    const uint64_t end = share_begin(total, mine.index + 1, mine.count);
    uint64_t base = 0;
    for (const LinearJob& job : jobs) {
      const uint64_t cost = job_cost(job);
      const uint64_t panels = panel_count(job.n_out, kernels_.panel_columns);
      if (panels > 0 && base < end && base + cost > begin) {
        const uint64_t each = cost / panels;
        const uint64_t first = begin > base ? (begin - base + each - 1) / each : 0;
        const uint64_t last = end - base < cost ? (end - base + each - 1) / each : panels;
        if (first < last) run_panels(job, first, last, mine.index);
      }
      base += cost;
    }
  }

  std::string_view numerics() const noexcept override { return kernels_.name; }

 private:
  static Status check(const WeightView& weight) {
    Format format;
    DType dtype;
    if (!parse_format(weight.format, format, dtype)) {
      return refuse(weight, "has format \"" + std::string(weight.format) +
                                "\"; \"dense\" multiplies f32, f16 and bf16; choose a linear "
                                "plugin for that format, or \"auto\"");
    }
    if (weight.n_out == 0 || weight.k_in == 0) {
      return refuse(weight, "is empty; its rows and columns must be at least 1");
    }
    if (weight.parts.size() != 1 || weight.parts[0].data == nullptr) {
      return refuse(weight, "has " + std::to_string(weight.parts.size()) +
                                " parts; \"dense\" expects one tensor with data");
    }
    const TensorView& tensor = weight.parts[0];
    if (tensor.dtype != dtype || tensor.rank != 2 || tensor.shape[0] != weight.n_out ||
        tensor.shape[1] != weight.k_in) {
      return refuse(weight,
                    "is a tensor of another type or shape than its format and size say; "
                    "the reader of the checkpoint is at fault");
    }
    if (tensor.stride[1] != 1 || tensor.stride[0] < weight.k_in ||
        tensor.space.kind != SpaceKind::host) {
      return refuse(weight, "is not row-major in host memory, as \"dense\" expects");
    }
    if (tensor.stride[0] > kMaxWeightBytes / weight.n_out / 4) {
      return refuse(weight, "is larger than any machine's memory; the checkpoint is damaged");
    }
    return Status();
  }

  uint32_t* pair_rows(const void* prepared, uint32_t rows, uint32_t k_in) const {
    return static_cast<uint32_t*>(const_cast<void*>(prepared)) + rows * f32_row_stride(k_in);
  }

  // Weights that the job reads, up to a common factor.
  uint64_t job_cost(const LinearJob& job) const {
    const uint64_t matrices = job.epilogue == Epilogue::silu_mul ? 2 : 1;
    return panel_count(job.n_out, kernels_.panel_columns) * job.k_in * matrices;
  }

  void run_panels(const LinearJob& job, uint64_t first, uint64_t last, uint32_t worker) const {
    const auto* packed = static_cast<const std::byte*>(job.packed);
    const auto* second = static_cast<const std::byte*>(job.packed_second);
    kernels_.multiply(
        {.format = reinterpret_cast<const PackedHeader*>(packed)->format,
         .panels = packed + sizeof(PackedHeader),
         .second_panels = second == nullptr ? nullptr : second + sizeof(PackedHeader),
         .n_out = job.n_out,
         .k_in = job.k_in,
         .first_panel = static_cast<uint32_t>(first),
         .last_panel = static_cast<uint32_t>(last),
         .f32_rows = static_cast<const float*>(job.prepared),
         .pair_rows = pair_rows(job.prepared, job.x_rows, job.k_in),
         .rows = job.rows.empty() ? nullptr : job.rows.data(),
         .row_count = job.rows.empty() ? job.x_rows : static_cast<uint32_t>(job.rows.size()),
         .y = job.y,
         .y_stride = job.y_stride,
         .bias = job.bias,
         .epilogue = job.epilogue,
         .scratch = reinterpret_cast<float*>(scratch_ + worker * scratch_stride_)});
  }

  const HostServices& host_;
  const KernelSet& kernels_;
  const uint32_t workers_;
  uint64_t scratch_stride_ = 0;
  std::byte* scratch_ = nullptr;  // [workers]
  std::atomic<bool> needs_f32_rows_{false};
  std::atomic<bool> needs_pair_rows_{false};
};

constexpr Fact kProvides[] = {
    {.key = "weight.format", .words = "f32 f16 bf16"},
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.interface = kLinearInterface;
  base.id = "dense";
  base.version = "0.1.0";
  base.summary = "multiplies f32, f16 and bf16 weights with FMA or bf16 dot products";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 10; };
  return base;
}
constexpr PluginDescriptor kDense = sdk::with_facts(
    sdk::descriptor<LinearKernel, Dense, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::dense

TENON_PLUGIN_LIBRARY(&tenon::dense::kDense)
