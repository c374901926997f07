// Loading a checkpoint, against copying its weights into fresh memory with as many threads, and the
// first steps after it.
//
//   load_bench --model=PATH [--shape=llama-3.2-1b] [--linear=auto|dense|int8] [--rounds=5]
//
// Each round copies, loads and steps in turn, because the machine drifts: ratios hold within a
// round. With --rounds=1 everything is a process's first.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>

#include "bench/micro/bench_stepper.h"
#include "core/base/machine/process_memory.h"
#include "core/base/statistics.h"
#include "core/exec/host_memory.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::bench {
namespace {

// Processor time of all threads tells what the work takes where neighbours share the machine.
struct Took {
  double seconds = 0;
  double processor_seconds = 0;
};

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Took time_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {took.count(), processor_seconds() - processor};
}

// The matrices as they are stored, each tensor once.
std::vector<std::span<const std::byte>> stored_bytes(const Model& model) {
  std::vector<std::span<const std::byte>> parts;
  const auto add = [&](const Weight& weight) {
    for (const TensorView& part : weight.parts) parts.push_back(bytes_of(part));
  };
  add(model.embedding);
  if (!model.plan.tied_embeddings) add(model.head);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) add(*weight);
  }
  return parts;
}

// Copies all weights from the mapped file into memory that is touched for the first time, in pieces
// that workers take as they get done: the least that loading costs.
Took time_of_copy(const std::string& path) {
  constexpr size_t kPiece = size_t{4} << 20;
  struct Piece {
    std::span<const std::byte> from;
    size_t to;
  };
  const auto model = value_or_leave(open_model(path));
  std::vector<Piece> pieces;
  size_t total = 0;
  for (std::span<const std::byte> part : stored_bytes(*model)) {
    for (size_t at = 0; at < part.size(); at += kPiece) {
      pieces.push_back({part.subspan(at, std::min(kPiece, part.size() - at)), total + at});
    }
    total += part.size();
  }
  return time_of([&] {
    const HostMemory memory =
        value_or_leave(HostMemory::allocate(total, HostMemory::Backing::eager, "the copy"));
    std::atomic<size_t> next = 0;
    machine().pool->run([&](uint32_t) {
      for (size_t i = next++; i < pieces.size(); i = next++) {
        std::memcpy(memory.data() + pieces[i].to, pieces[i].from.data(), pieces[i].from.size());
      }
    });
  });
}

struct Round {
  Took copy, open, load, step[3];
  uint64_t peak = 0;  // anonymous, beyond what the process held before
  uint64_t huge = 0;
  uint64_t needed = 0;  // packed weights, and K/V as far as steps reached
};

Round measure(const std::string& path, const std::string& linear) {
  Round round;
  round.copy = time_of_copy(path);
  const ProcessMemory before = process_memory();
  std::optional<Stepper> stepper;
  round.open = time_of([&] { stepper.emplace(path, linear); });
  round.load = time_of([&] { stepper->load(); });
  for (Took& step : round.step) step = time_of([&] { stepper->step(1, 1, 63); });
  const ProcessMemory after = process_memory();
  round.peak = after.anonymous_bytes - before.anonymous_bytes;
  round.huge = after.huge_bytes;
  round.needed = stepper->executor().weight_bytes() + stepper->executor().kv_bytes();
  return round;
}

double median_of(const std::vector<Round>& rounds, const std::function<double(const Round&)>& of) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(of(round));
  return median(std::move(values));
}

double load_ratio(const Round& r) {
  return r.load.seconds / r.copy.seconds;
}
double processor_ratio(const Round& r) {
  return r.load.processor_seconds / r.copy.processor_seconds;
}
double first_step_ratio(const Round& r) {
  return r.step[0].seconds / r.step[2].seconds;
}

void print(const Round& r) {
  std::printf(
      "copy %.3f s, open %.3f s, load %.3f s: %.2f times the copy (%.2f by processor time); steps "
      "%.2f %.2f %.2f ms; anonymous %.3f GB (%.3f in huge pages), weights and K/V %.3f GB\n",
      r.copy.seconds, r.open.seconds, r.load.seconds, load_ratio(r), processor_ratio(r),
      r.step[0].seconds * 1e3, r.step[1].seconds * 1e3, r.step[2].seconds * 1e3,
      static_cast<double>(r.peak) / 1e9, static_cast<double>(r.huge) / 1e9,
      static_cast<double>(r.needed) / 1e9);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  const std::string path = take_model(argc, argv);
  const std::string linear = take_flag(argc, argv, "--linear", "auto");
  const int count = std::max(1, std::atoi(take_flag(argc, argv, "--rounds", "5").c_str()));
  if (!start_machine(argc, argv)) return 1;
  std::vector<Round> rounds;
  for (int i = 0; i < count; ++i) {
    rounds.push_back(measure(path, linear));
    print(rounds.back());
  }
  std::printf(
      "median: load %.2f times the copy (%.2f by processor time); step 1 %.2f times step 3\n",
      median_of(rounds, load_ratio), median_of(rounds, processor_ratio),
      median_of(rounds, first_step_ratio));
  return 0;
}
