// Linear kernels over the shapes of a 1B and a 135M model. Weights lie in as many copies as it
// takes to leave every cache, so one row is bound by memory, as in decoding.
//
//   linear_bench --benchmark_filter='bf16.*rows:1$'
#include <sys/mman.h>
#include <tenon/linear.h>

#include <cstring>
#include <string>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"

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

DType dtype_of(std::string_view format) {
  return format == "f32" ? DType::f32 : (format == "f16" ? DType::f16 : DType::bf16);
}

// Packed copies of one weight, the last one kept for the next benchmark of the same weight.
class PackedCopies {
 public:
  PackedCopies(LinearKernel& kernel, const Shape& shape, std::string_view format) {
    const DType dtype = dtype_of(format);
    const uint64_t values = uint64_t{shape.n_out} * shape.k_in;
    std::vector<std::byte> source(values * dtype_bits(dtype) / 8);
    fill(source, dtype);
    TensorView tensor;
    tensor.data = source.data();
    tensor.dtype = dtype;
    tensor.rank = 2;
    tensor.shape[0] = shape.n_out;
    tensor.shape[1] = tensor.stride[0] = shape.k_in;
    const WeightView view{format, shape.name, shape.n_out, shape.k_in, {&tensor, 1}};
    stride_ = (kernel.packed_bytes(view) + 4095) / 4096 * 4096;
    count_ = static_cast<uint32_t>(1 + (kFarBytes - 1) / stride_);
    memory_ = huge(stride_ * count_);
    machine().pool->run([&](uint32_t worker) {
      for (uint32_t i = 0; i < count_; ++i) {
        Status status = kernel.pack(view, memory_ + i * stride_, {worker, machine().pool->size()});
        if (!status.ok()) std::abort();
      }
    });
  }
  PackedCopies(const PackedCopies&) = delete;
  PackedCopies& operator=(const PackedCopies&) = delete;
  ~PackedCopies() { munmap(memory_, stride_ * count_); }

  const void* next() { return memory_ + (at_++ % count_) * stride_; }

 private:
  // Small positive numbers: any bit pattern below 0x3f00 in the upper half is one.
  static void fill(std::vector<std::byte>& bytes, DType dtype) {
    uint32_t state = 1;
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      state = state * 1664525u + 1013904223u;
      const uint16_t half =
          static_cast<uint16_t>((dtype == DType::f16 ? 0x2c00 : 0x3c00) | (state >> 25));
      std::memcpy(bytes.data() + i, &half, 2);
    }
  }
  uint64_t stride_ = 0;
  uint32_t count_ = 0;
  uint32_t at_ = 0;
  std::byte* memory_ = nullptr;
};

void bench_multiply(benchmark::State& state, LinearKernel& kernel, const Shape& shape,
                    std::string_view format, uint32_t rows) {
  PackedCopies weights(kernel, shape, format);
  std::vector<float> x(uint64_t{rows} * shape.k_in, 0.5f);
  std::byte* prepared = huge(kernel.prepared_bytes(rows, shape.k_in));
  std::vector<float> y(uint64_t{rows} * shape.n_out);
  kernel.prepare(x.data(), shape.k_in, rows, shape.k_in, prepared, {0, 1});
  const MachineLimits limits = limits_now();
  LinearJob job;
  job.n_out = shape.n_out;
  job.k_in = shape.k_in;
  job.prepared = prepared;
  job.x_rows = rows;
  job.y = y.data();
  job.y_stride = shape.n_out;
  const double values = double{1} * shape.n_out * shape.k_in;
  const bool dots = format == "bf16" && kernel.numerics().ends_with("bf16");
  const Cost cost{.bytes = values * dtype_bits(dtype_of(format)) / 8,
                  .operations = 2 * values * rows,
                  .operation_limit = dots ? limits.bf16_flops : limits.fma_flops};
  measure(
      state, limits, cost, [&] { job.packed = weights.next(); },
      [&](Slice slice) {
        kernel.run({&job, 1}, slice);
      });
  munmap(prepared, kernel.prepared_bytes(rows, shape.k_in));
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  auto& dense = kernel<LinearKernel>("linear_dense", kLinearInterface, "dense");
  for (std::string_view format : {"bf16", "f16", "f32"}) {
    for (const Shape& shape : kShapes) {
      for (uint32_t rows : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 512u}) {
        const std::string name =
            "dense/" + std::string(format) + "/" + shape.name + "/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&dense, &shape, format, rows](auto& state) {
                                       bench_multiply(state, dense, shape, format, rows);
                                     })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond)
            ->MinTime(0.2);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
