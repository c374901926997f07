// How long a device needs at least for what a step launches: for the bytes that must move, by its
// bandwidth, or for the operations, by its tensor cores, whichever takes longer.
//
//   tenon_cuda_roofline       counts in the emulator, at the size of the bundled model, holds the
//                             formulas against it, and prints that and the same at the size of 8B
//
// The output is bench/cuda/roofline.txt. Exit status 1 where a formula and the emulator differ.
#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/cuda/part_costs.h"
#include "bench/cuda/step_cases.h"
#include "tests/cuda/rig/emulated_driver.h"

namespace tenon::cuda::bench {
namespace {

// NVIDIA's data sheets of the H100 (SXM) and the H200 (SXM): memory, and bf16 without sparsity.
struct Device {
  const char* name;
  double bytes_per_second;
  double bf16_per_second;
};
constexpr Device kDevices[] = {
    {"H100", 3.35e12, 989e12},
    {"H200", 4.8e12, 989e12},
};

double least_seconds(const Device& device, const Cost& cost) {
  return std::max(static_cast<double>(cost.moved_bytes()) / device.bytes_per_second,
                  static_cast<double>(cost.operations) / device.bf16_per_second);
}

Cost times(const Cost& cost, uint64_t count) {
  return {cost.read_bytes * count, cost.written_bytes * count, cost.issued_bytes * count,
          cost.operations * count};
}

void print_cost(const char* workload, const std::string& name, uint32_t calls, const Cost& cost) {
  std::printf("%s %s %u %llu %llu %llu", workload, name.c_str(), calls,
              static_cast<unsigned long long>(cost.moved_bytes()),
              static_cast<unsigned long long>(cost.issued_bytes),
              static_cast<unsigned long long>(cost.operations));
}

Cost counted(const Counts& counts) {
  return {counts.touched_read_bytes, counts.touched_written_bytes,
          counts.read_bytes + counts.written_bytes, counts.bf16_operations};
}

// What the emulator counts of one launch of a case.
bool emulate(const KernelCase& one, Cost& cost) {
  test::EmulatedDriver driver;
  CaseArrays arrays(driver, 0);
  const KernelCase::Launch launch = one.prepare(arrays);
  driver.machine().record_launches();
  const bool launched = arrays.status().ok() && launch(driver.stream()) == 0;
  const Status done = driver.wait();
  if (!launched || !done.ok()) {
    std::fprintf(stderr, "%s: %s\n", one.name.c_str(), std::string(done.message()).c_str());
    return false;
  }
  cost = counted(driver.machine().counts());
  return true;
}

bool emulate(const Workload& workload) {
  bool right = true;
  for (const KernelCase& one : step_cases(workload)) {
    Cost cost;
    if (!emulate(one, cost)) return false;
    print_cost(workload.name, one.name, one.calls, cost);
    std::printf("\n");
    if (cost == one.cost) continue;
    right = false;
    std::fprintf(stderr, "%s %s: the formula says otherwise:\n", workload.name, one.name.c_str());
    std::fprintf(stderr, "  counted  reads %llu, writes %llu, asks for %llu, operations %llu\n",
                 static_cast<unsigned long long>(cost.read_bytes),
                 static_cast<unsigned long long>(cost.written_bytes),
                 static_cast<unsigned long long>(cost.issued_bytes),
                 static_cast<unsigned long long>(cost.operations));
    std::fprintf(stderr, "  formula  reads %llu, writes %llu, asks for %llu, operations %llu\n",
                 static_cast<unsigned long long>(one.cost.read_bytes),
                 static_cast<unsigned long long>(one.cost.written_bytes),
                 static_cast<unsigned long long>(one.cost.issued_bytes),
                 static_cast<unsigned long long>(one.cost.operations));
  }
  return right;
}

void extrapolate(const Workload& workload) {
  Cost step;
  double seconds[std::size(kDevices)] = {};
  uint32_t calls = 0;
  for (const KernelCase& one : step_cases(workload)) {
    print_cost(workload.name, one.name, one.calls, one.cost);
    for (size_t i = 0; i < std::size(kDevices); ++i) {
      const double least = least_seconds(kDevices[i], one.cost);
      std::printf(" %.3f", least * 1e6);
      seconds[i] += least * one.calls;
    }
    std::printf("\n");
    step += times(one.cost, one.calls);
    calls += one.calls;
  }
  print_cost(workload.name, "step", calls, step);
  for (const double sum : seconds) std::printf(" %.3f", sum * 1e6);
  std::printf("\n");
}

void print_parts() {
  for (const PartCost& part : part_costs()) {
    print_cost("parts", part.name, 1, part.cost);
    for (const Device& device : kDevices) {
      std::printf(" %.3f", least_seconds(device, part.cost) * 1e6);
    }
    std::printf("\n");
  }
}

int run() {
  std::printf("workload kernel calls moved_bytes issued_bytes operations");
  for (const Device& device : kDevices) std::printf(" %s_us", device.name);
  std::printf("\n");
  for (const Device& device : kDevices) {
    std::printf("limit %s %.0f %.0f\n", device.name, device.bytes_per_second,
                device.bf16_per_second);
  }
  bool right = true;
  for (const Workload& workload : kEmulated) right &= emulate(workload);
  for (const Workload& workload : kFull) extrapolate(workload);
  print_parts();
  return right ? 0 : 1;
}

}  // namespace
}  // namespace tenon::cuda::bench

int main() {
  return tenon::cuda::bench::run();
}
