// Linear kernels over the shapes of a 1B and a 135M model. Weights lie in as many copies as it
// takes to leave every cache, so one row is bound by memory, as in decoding.
//
//   linear_bench --benchmark_filter='bf16.*rows:1$'
#include <sys/mman.h>
#include <tenon/linear.h>
#include <tenon/sdk/linear/quant_formats.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"
#include "core/base/threads/work_queue.h"
#include "core/exec/cpu/step/step.h"

namespace tenon::bench {
namespace {

constexpr uint64_t kFarBytes = uint64_t{640} << 20;  // beyond any last-level cache

// Zeroed memory in huge pages. Kept until the process ends.
std::byte* huge(uint64_t bytes) {
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) std::abort();
  madvise(made, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(made);
}

struct Shape {
  const char* name;
  uint32_t n_out, k_in;
};
constexpr Shape kShapes[] = {
    {"1B.q", 2048, 2048},     {"1B.kv", 512, 2048},      {"1B.gate", 8192, 2048},
    {"1B.down", 2048, 8192},  {"1B.head", 128256, 2048}, {"135M.q", 576, 576},
    {"135M.gate", 1536, 576}, {"135M.down", 576, 1536},
};

// A weight as a checkpoint stores it, full of small numbers.
class Source {
 public:
  Source(const Shape& shape, std::string_view format) {
    sdk::QuantFormat blocks;
    tensor_.rank = 2;
    tensor_.shape[0] = shape.n_out;
    if (sdk::parse_quant_format(format, blocks)) {
      blocks_ = sdk::quant_shape(blocks);
      tensor_.dtype = DType::u8;
      tensor_.shape[1] = shape.k_in / blocks_.values * blocks_.bytes;
    } else {
      tensor_.dtype = format == "f32" ? DType::f32 : (format == "f16" ? DType::f16 : DType::bf16);
      tensor_.shape[1] = shape.k_in;
    }
    tensor_.stride[0] = tensor_.shape[1];
    bytes_.resize(uint64_t{shape.n_out} * tensor_.shape[1] * dtype_bits(tensor_.dtype) / 8);
    fill();
    tensor_.data = bytes_.data();
    view_ = {format, shape.name, shape.n_out, shape.k_in, {&tensor_, 1}};
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  const WeightView& view() const { return view_; }
  uint64_t bytes() const { return bytes_.size(); }

 private:
  // Any bit pattern below 0x3f00 in the upper half of a float, any byte, and f16 scales of 0.01.
  void fill() {
    uint32_t state = 1;
    for (size_t i = 0; i + 1 < bytes_.size(); i += 2) {
      state = state * 1664525u + 1013904223u;
      uint16_t half =
          static_cast<uint16_t>((tensor_.dtype == DType::f16 ? 0x2c00 : 0x3c00) | (state >> 25));
      if (blocks_.bytes > 0) half = static_cast<uint16_t>(state >> 16);
      std::memcpy(bytes_.data() + i, &half, 2);
    }
    const uint16_t scale = sdk::float_to_f16(0.01f);
    for (size_t i = 0; blocks_.bytes > 0 && i < bytes_.size(); i += blocks_.bytes) {
      std::byte* halves = bytes_.data() + i + blocks_.scale_at;
      std::memcpy(halves, &scale, 2);
      if (blocks_.has_minimum) std::memcpy(halves + 2, &scale, 2);
    }
  }
  sdk::QuantShape blocks_;  // no bytes: plain
  std::vector<std::byte> bytes_;
  TensorView tensor_;
  WeightView view_;
};

// Packed copies of one weight beyond any cache. Copies are made from the first: packing is slow.
class PackedCopies {
 public:
  PackedCopies(LinearKernel& kernel, const WeightView& view) {
    const uint64_t bytes = kernel.packed_bytes(view);
    stride_ = (bytes + 4095) / 4096 * 4096;
    count_ = static_cast<uint32_t>(1 + (kFarBytes - 1) / stride_);
    memory_ = huge(stride_ * count_);
    const uint32_t workers = machine().pool->size();
    machine().pool->run([&](uint32_t worker) {
      if (!kernel.pack(view, memory_, {worker, workers}).ok()) std::abort();
    });
    machine().pool->run([&](uint32_t worker) {
      for (uint32_t i = 1 + worker; i < count_; i += workers) {
        std::memcpy(memory_ + i * stride_, memory_, bytes);
      }
    });
  }
  PackedCopies(const PackedCopies&) = delete;
  PackedCopies& operator=(const PackedCopies&) = delete;
  ~PackedCopies() { munmap(memory_, stride_ * count_); }

  const void* next() { return memory_ + (at_++ % count_) * stride_; }

 private:
  uint64_t stride_ = 0;
  uint32_t count_ = 0;
  uint32_t at_ = 0;
  std::byte* memory_ = nullptr;
};

// The rate that bounds what this kernel computes with.
double operation_limit(const LinearKernel& kernel, std::string_view format,
                       const MachineLimits& limits) {
  if (kernel.numerics().starts_with("int8")) return limits.int8_ops;
  const bool exact_pairs = format == "bf16" || format.starts_with("f8_");
  const bool dots = exact_pairs && kernel.numerics().find("bf16") != std::string_view::npos;
  return dots ? limits.bf16_flops : limits.fma_flops;
}

void bench_multiply(benchmark::State& state, LinearKernel& kernel, const Shape& shape,
                    std::string_view format, uint32_t rows) {
  const Source source(shape, format);
  PackedCopies weights(kernel, source.view());
  std::vector<float> x(uint64_t{rows} * shape.k_in);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 61) / 61.0f - 0.5f;
  PrepareCall prepare;
  prepare.preparation = kernel.preparation(source.view());
  prepare.packed = weights.next();
  prepare.x = x.data();
  prepare.x_stride = shape.k_in;
  prepare.rows = rows;
  const uint64_t prepared_bytes = kernel.prepared_bytes(prepare.preparation, rows);
  prepare.prepared = huge(prepared_bytes);
  if (!kernel.prepare(prepare, {0, 1}).ok()) std::abort();
  std::vector<float> y(uint64_t{rows} * shape.n_out);
  const MachineLimits limits = limits_now();
  const uint32_t workers = machine().pool->size();
  WorkQueue queue(workers);
  uint32_t call = 0;
  const uint32_t parts = shape.n_out / linear_part_columns(rows) + workers;
  LinearJob job;
  job.n_out = shape.n_out;
  job.k_in = shape.k_in;
  job.prepared = prepare.prepared;
  job.x_rows = rows;
  job.y = y.data();
  job.y_stride = shape.n_out;
  const Cost cost{.bytes = static_cast<double>(source.bytes()),
                  .operations = 2.0 * shape.n_out * shape.k_in * rows,
                  .operation_limit = operation_limit(kernel, format, limits)};
  measure(
      state, limits, cost,
      [&] {
        job.packed = weights.next();
        ++call;
      },
      [&](Slice slice) {
        for (WorkRange range; queue.next(slice.index, call, parts, range);) {
          if (!kernel.run({&job, 1}, range, nullptr).ok()) std::abort();
        }
      });
  munmap(prepare.prepared, prepared_bytes);
}

void register_all(LinearKernel& kernel, std::string_view plugin,
                  const std::vector<std::string_view>& formats) {
  for (std::string_view format : formats) {
    sdk::QuantFormat blocks = sdk::QuantFormat::q8_0;
    sdk::parse_quant_format(format, blocks);
    for (const Shape& shape : kShapes) {
      if (shape.k_in % sdk::quant_shape(blocks).values != 0) continue;
      for (uint32_t rows : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 512u}) {
        const std::string name = std::string(plugin) + "/" + std::string(format) + "/" +
                                 shape.name + "/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&kernel, &shape, format, rows](auto& state) {
                                       bench_multiply(state, kernel, shape, format, rows);
                                     })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond)
            ->MinTime(0.2);
      }
    }
  }
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  const auto load = [](std::string_view library, std::string_view id) -> LinearKernel& {
    auto& made = kernel<LinearKernel>(library, kLinearInterface, id);
    LinearLimits limits;
    limits.max_rows = 512;
    limits.workers = machine().pool->size();
    if (!made.bind(limits).ok()) std::abort();
    return made;
  };
  // The formats with kernels of their own; the longest blocks of those that have several lengths.
  std::vector<std::string_view> integers, floats = {"bf16", "f16", "f32"};
  for (const sdk::QuantRow& row : sdk::kQuantRows) {
    const auto longer = [&](const sdk::QuantRow& other) {
      return other.base == row.base && other.values > row.values;
    };
    if (std::ranges::any_of(sdk::kQuantRows, longer)) continue;
    (row.codes == BlockCodes::floats ? floats : integers).push_back(row.name);
  }
  register_all(load("linear_dense", "dense"), "dense", floats);
  register_all(load("linear_dense", "dense"), "dense", integers);
  register_all(load("linear_int8", "int8"), "int8", integers);
#ifdef TENON_HAS_ONEDNN
  register_all(load("linear_onednn", "onednn"), "onednn", {"bf16", "f32"});
#endif
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
