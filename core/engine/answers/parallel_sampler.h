// The pipeline's sampler on all workers of the executor.
//
// A sampler may be called for different sequences at the same time, never for one: rows are cut
// into runs, a run a worker, and all rows of one sequence stay in the same run. They must stand
// side by side.
#pragma once

#include <span>
#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class ParallelSampler {
 public:
  explicit ParallelSampler(EngineContext& context) : context_(context) {}

  // As the methods of Sampler. The first run that fails counts.
  Status sample(std::span<const SampleRow> rows, std::span<SampleResult> results);
  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results);
  // Fails the requests of these shares, which the sampler did not answer.
  void failed(const std::vector<Share*>& shares, const Status& status);

 private:
  template <typename SequenceOf, typename Body>
  Status run(size_t count, const SequenceOf& sequence_of, const Body& body);

  EngineContext& context_;
  std::vector<Status> status_;  // [runs]
};

}  // namespace tenon
