// How long the first GPU takes for what a step launches, at the sizes of roofline.txt.
//
//   tenon_cuda_bench               lines of: workload kernel microseconds
//   tenon_cuda_bench WORKLOAD …    those workloads alone, without cuBLASLt
//   tenon_cuda_bench --tiles few|some|narrow|wide WORKLOAD …
//                                  products with those kernels, whatever is chosen else
//
// First comes the device's name, then its bandwidth, measured by copying; last, where cuBLASLt is
// installed, lines that begin with its name: its version, and its times for products in bf16 that
// kernels were timed with before, with arrays like theirs. Matrices and K/V are
// there often enough that no cache keeps them from one launch to the next. A launch's time is that
// of many in a row, captured in one graph as the executor captures steps: so it has what the device
// takes from one kernel to the next, and nothing of the host's. Exit status 77, with the reason,
// where there is no GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/step_cases.h"
#include "core/exec/cuda/device/cublaslt_library.h"
#include "core/exec/cuda/device/runtime_driver.h"
#include "core/exec/cuda/products/cublaslt_products.h"

namespace tenon::cuda::bench {
namespace {

constexpr int kSkipped = 77;
constexpr uint64_t kColdBytes = uint64_t{512} << 20;  // ten times the largest L2
constexpr double kSeconds = 0.1;                      // of measuring, for each kernel
constexpr int kWarmCalls = 3;
constexpr int kCaptured = 64;  // launches of a graph

// Seconds of one call of `work`, which puts something on the driver's queue.
template <typename Work>
Result<double> seconds_of(Driver& driver, const Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&](int count) -> Result<double> {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) TENON_RETURN_IF_ERROR(work());
    TENON_RETURN_IF_ERROR(driver.wait());
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  TENON_ASSIGN_OR_RETURN(const double warm, run(kWarmCalls));
  const double expected = std::max(warm / kWarmCalls, 1e-6);
  const int count = static_cast<int>(std::clamp(kSeconds / expected, 5.0, 20000.0));
  TENON_ASSIGN_OR_RETURN(const double all, run(count));
  return all / count;
}

// The same of a launch, among others in a graph. What it chooses when it is called for the first
// time is chosen before.
template <typename Work>
Result<double> captured_seconds_of(Driver& driver, const Work& work, int count = kCaptured) {
  TENON_RETURN_IF_ERROR(work());
  TENON_RETURN_IF_ERROR(driver.wait());
  TENON_RETURN_IF_ERROR(driver.begin_capture());
  Status launched;
  for (int i = 0; i < count && launched.ok(); ++i) launched = work();
  auto graph = driver.end_capture();
  TENON_RETURN_IF_ERROR(std::move(launched));
  TENON_ASSIGN_OR_RETURN(const DeviceGraph captured, std::move(graph));
  auto seconds = seconds_of(driver, [&] { return driver.replay(captured.handle); });
  driver.drop(captured.handle);
  TENON_ASSIGN_OR_RETURN(const double all, std::move(seconds));
  return all / count;
}

Status measure_bandwidth(Driver& driver) {
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  DeviceMemory memory(driver);
  TENON_ASSIGN_OR_RETURN(void* const to, memory.bytes(kBytes, "a copy"));
  TENON_ASSIGN_OR_RETURN(void* const from, memory.bytes(kBytes, "a copy"));
  TENON_ASSIGN_OR_RETURN(const double seconds,
                         seconds_of(driver, [&] { return driver.copy(to, from, kBytes); }));
  std::printf("bandwidth copy %.0f\n", 2.0 * static_cast<double>(kBytes) / seconds);
  return {};
}

Status measure(Driver& driver, const Workload& workload, const KernelCase& one) {
  CaseArrays arrays(driver, kColdBytes);
  const KernelCase::Launch launch = one.prepare(arrays);
  if (!arrays.status().ok()) return internal(std::string(arrays.status().message()));
  const auto work = [&] { return driver.launched(launch(driver.stream()), one.name); };
  TENON_ASSIGN_OR_RETURN(const double seconds, captured_seconds_of(driver, work));
  std::printf("%s %s %.3f\n", workload.name, one.name.c_str(), seconds * 1e6);
  std::fflush(stdout);
  return {};
}

// A whole step in its order, as one graph.
Status measure_step(Driver& driver, const Workload& workload) {
  const std::vector<KernelCase> cases = step_cases(workload);
  const std::vector<size_t> order = step_order(workload, cases);
  CaseArrays arrays(driver, kColdBytes);
  std::vector<KernelCase::Launch> launches;
  for (const KernelCase& one : cases) launches.push_back(one.prepare(arrays));
  if (!arrays.status().ok()) return internal(std::string(arrays.status().message()));
  const auto step = [&]() -> Status {
    for (const size_t i : order) {
      TENON_RETURN_IF_ERROR(driver.launched(launches[i](driver.stream()), cases[i].name));
    }
    return {};
  };
  TENON_ASSIGN_OR_RETURN(const double seconds, captured_seconds_of(driver, step, 1));
  std::printf("%s step %.3f\n", workload.name, seconds * 1e6);
  std::fflush(stdout);
  return {};
}

Status measure_by_cublaslt(Driver& driver, LtLibrary& library, const Workload& workload,
                           const KernelCase& one) {
  CaseArrays arrays(driver, kColdBytes);
  CublasLtProducts products(driver, library);
  TENON_RETURN_IF_ERROR(products.load());
  Status failed;
  const KernelCase::Launch launch = one.prepare_for(arrays, [&](void*, const MultiplyCall& call) {
    failed = products.multiply(Input::bf16, call);
    return failed.ok() ? 0 : 1;
  });
  if (!arrays.status().ok()) return internal(std::string(arrays.status().message()));
  const auto work = [&] { return launch(nullptr) == 0 ? Status() : std::move(failed); };
  TENON_ASSIGN_OR_RETURN(const double seconds, captured_seconds_of(driver, work));
  std::printf("cublaslt %s %s %.3f\n", workload.name, one.name.c_str(), seconds * 1e6);
  std::fflush(stdout);
  return {};
}

// What it cannot do, and that it is not there, is said, and no fault of the kernels.
void measure_all_by_cublaslt(Driver& driver) {
  const auto say = [](const Status& why) {
    std::fprintf(stderr, "cuBLASLt stands beside no more products: %s\n",
                 std::string(why.message()).c_str());
  };
  const auto library = load_cublaslt();
  if (!library.ok()) return say(library.status());
  std::printf("cublaslt %s\n", (*library)->version().c_str());
  for (const Workload& workload : kFull) {
    if (workload.weight_bits != 16) continue;
    for (const KernelCase& one : step_cases(workload)) {
      if (!one.prepare_for) continue;
      const Status done = measure_by_cublaslt(driver, **library, workload, one);
      if (!done.ok()) return say(done);
    }
  }
}

struct Choice {
  std::vector<std::string> names;  // of workloads; none: all
  ProductTiles tiles = ProductTiles::by_shape;
};

Status measure_all(Driver& driver, const Choice& choice) {
  std::printf("device %s\n", driver.device_name().c_str());
  TENON_RETURN_IF_ERROR(measure_bandwidth(driver));
  const std::vector<std::string>& names = choice.names;
  for (Workload workload : kFull) {
    if (!names.empty() && std::ranges::find(names, workload.name) == names.end()) continue;
    workload.tiles = choice.tiles;
    for (const KernelCase& one : step_cases(workload)) {
      TENON_RETURN_IF_ERROR(measure(driver, workload, one));
    }
    TENON_RETURN_IF_ERROR(measure_step(driver, workload));
  }
  if (names.empty()) measure_all_by_cublaslt(driver);
  return {};
}

// Empty where there is no such word.
std::optional<ProductTiles> tiles_called(const std::string& word) {
  constexpr std::pair<const char*, ProductTiles> kWords[] = {{"few", ProductTiles::rows_16},
                                                             {"some", ProductTiles::rows_64},
                                                             {"narrow", ProductTiles::narrow},
                                                             {"wide", ProductTiles::wide}};
  for (const auto& [name, tiles] : kWords) {
    if (word == name) return tiles;
  }
  return std::nullopt;
}

int run(const Choice& choice) {
  for (const std::string& name : choice.names) {
    if (std::ranges::find(kFull, name, &Workload::name) != std::end(kFull)) continue;
    std::fprintf(stderr, "there is no workload %s; there are", name.c_str());
    for (const Workload& workload : kFull) std::fprintf(stderr, " %s", workload.name);
    std::fprintf(stderr, "\n");
    return 1;
  }
  const auto driver = make_runtime_driver();
  if (!driver.ok()) {
    std::printf("skipped: %s\n", std::string(driver.status().message()).c_str());
    return kSkipped;
  }
  const Status done = measure_all(**driver, choice);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(done.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tenon::cuda::bench

int main(int count, char** words) {
  tenon::cuda::bench::Choice choice;
  choice.names.assign(words + 1, words + count);
  if (choice.names.size() > 1 && choice.names[0] == "--tiles") {
    const auto tiles = tenon::cuda::bench::tiles_called(choice.names[1]);
    if (!tiles) {
      std::fprintf(stderr, "there are tiles few, some, narrow and wide\n");
      return 1;
    }
    choice.tiles = *tiles;
    choice.names.erase(choice.names.begin(), choice.names.begin() + 2);
  }
  return tenon::cuda::bench::run(choice);
}
