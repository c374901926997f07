// A model loaded into the CPU executor, and steps whose work is known.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "core/exec/executor.h"
#include "core/model/model.h"

namespace tenon::bench {

// The end of the process, with a message.
[[noreturn]] void leave(std::string_view message);
void leave_unless(const Status& status);
template <typename T>
T value_or_leave(Result<T> result) {
  if (!result.ok()) leave(result.status().message());
  return *std::move(result);
}

// Takes NAME=VALUE out of argv; `value` is what it is without.
std::string take_flag(int& argc, char** argv, std::string_view name, std::string value);
// Takes --model and --shape out of argv and gives the model's path back; with --shape a checkpoint
// of random bf16 weights is made there where there is none.
std::string take_model(int& argc, char** argv);

class Stepper {
 public:
  static constexpr uint32_t kContext = 1024;  // one KV block a sequence holds all of it
  static constexpr uint32_t kMaxSequences = 32;
  static constexpr uint32_t kMaxRows = 512;

  // Opens the model; `load` makes it ready. `linear` is "dense", "int8" or "auto": "int8" where it
  // takes the weight.
  Stepper(const std::string& path, const std::string& linear);
  void load(const LoadProgress& progress = {});
  const Model& model() const { return *model_; }
  const Executor& executor() const { return *executor_; }

  // `sequences` with `rows` rows each, the last at position `last`; logits of each last row.
  void step(uint32_t sequences, uint32_t rows, uint32_t last);
  // Weights are read once, K and V of the positions before once a sequence. Of the last layer and
  // the head only wanted rows are counted in full.
  Cost cost(uint32_t sequences, uint32_t rows, uint32_t last, const MachineLimits& limits) const;

 private:
  ChosenLinear kernel_for(const WeightView& weight) const;

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  std::vector<LinearKernel*> linear_;  // in the order of preference
  std::vector<KvGroupGeometry> groups_;
  std::unique_ptr<Executor> executor_;
  uint64_t step_id_ = 0;
};

}  // namespace tenon::bench
