// The ways to make an executor that tests run over: the oracle, and the CPU executor with plain
// kernels and with the project's plugins, on every instruction set that can run here.
#pragma once

#include <tenon/host.h>
#include <tenon/processors/cpu_sets.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/exec/executor.h"
#include "tests/support/step_driver.h"

namespace tenon::test {

struct ExecutorCase {
  enum class Kind : uint8_t { ref, cpu_plain, cpu_plugins };
  Kind kind = Kind::ref;
  CpuFeatures isa = kCpuPortable;
  uint32_t threads = 2;

  std::string name() const;  // "ref", "cpu_plain_2", "cpu_avx2_2"
  // Whether bf16 weights are multiplied with activations rounded to bf16.
  bool rounds_activations() const {
    return kind == Kind::cpu_plugins && (isa == kCpuAvx512Bf16 || isa == kCpuNeonBf16);
  }
};
void PrintTo(const ExecutorCase& executor, std::ostream* out);

// Each with two threads.
std::vector<ExecutorCase> executor_cases();
std::vector<ExecutorCase> cpu_cases();

// Kernels and all that they need, alive as long as this is.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual AttentionKernel* attention() = 0;
  virtual const AttentionChunks* chunks() = 0;
  virtual LinearKernel* linear() = 0;
  virtual const GateFinish* gate_finish() { return nullptr; }
  virtual StateKernel* state() = 0;
};
// Null for the oracle.
std::unique_ptr<KernelSet> make_kernels(const ExecutorCase& executor);
std::unique_ptr<Executor> make_executor(const ExecutorCase& executor);

// An executor with its kernels, loaded and driven. `model` and `shape` outlive it.
class Loaded {
 public:
  Loaded(const ExecutorCase& executor, const Model& model, const ModelShape& shape,
         LoadOptions options = {});
  StepDriver* operator->() { return driver_.get(); }
  Executor& executor() { return *executor_; }

 private:
  std::unique_ptr<KernelSet> kernels_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StepDriver> driver_;
};

}  // namespace tenon::test
