// What `tenon bench` says of its measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/machine/process_memory.h"
#include "tools/tenon/bench/measure.h"

namespace tenon {

// Other programs, or other guests of the machine, took more than a tenth of the processors: then
// what was measured as its limits says nothing, and neither do fractions of it.
constexpr double kQuietShare = 0.9;

struct Speed {
  double seconds = 0;
  double tokens_per_second = 0;
  double gigabytes_per_second = 0;
  double teraops = 0;
  double limit_seconds = 0;  // 0 = not measured, or of a busy machine
  double processor_share = 1;
  double fraction() const { return limit_seconds / seconds; }
  bool busy() const { return processor_share < kQuietShare; }
};

Speed speed_of(double seconds, const StepWork& work, const StepLoad& load,
               const std::optional<MachineLimits>& limits);

// What the process holds against what it cannot do without. Memory only grows while a pipeline
// lives, so what is held after a repetition is the most so far.
struct MemoryUse {
  uint64_t weights = 0;  // packed
  uint64_t kv = 0;       // the whole cache; it is backed as far as it was used
  ProcessMemory process;
};

// What drafts of the wanted acceptance brought.
struct DraftGain {
  double tokens_a_step = 0;
  double speedup = 0;
};

// All repetitions of a pipeline.
struct Measured {
  BenchPlan plan;
  uint32_t wanted = 0;  // repetitions
  double load_seconds = 0;
  MemoryUse memory;
  uint32_t threads = 0;
  std::optional<MachineLimits> limits;  // the last ones
  std::vector<Speed> prefill, decode, verify;
  std::vector<DraftGain> gains;             // empty: no acceptance was wanted
  std::vector<double> decode_means;         // seconds of a step
  std::vector<double> decode_expert_bytes;  // of a step
};

// Of an interrupted measurement what was done, marked as partial.
void show_measured(const Pipeline& pipeline, bool json, const StepWork& work,
                   const Measured& measured);
// The machine alone.
void show_limits(uint32_t threads, const MachineLimits& limits, bool json);

}  // namespace tenon
