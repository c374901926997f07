// Steps of real pipelines, timed for `tenon calibrate`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/llm/open/open_pipeline.h"
#include "core/sim/fit.h"

namespace tenon {

// So many requests at once, each with a prompt of so many tokens: a step of all prompts, then steps
// of a row a sequence.
struct StepPlan {
  uint32_t sequences = 1;
  uint32_t prompt_tokens = 16;
};

// A pipeline with what its steps need.
struct CalibratedModel {
  std::string name;
  llm::OpenedPipeline opened;
  std::unique_ptr<sim::StepModel> steps;
  bool held_out = false;
};
Result<CalibratedModel> open_calibrated(const std::string& name, const std::string& path,
                                        uint32_t threads, bool held_out);

// Two steps of each plan: of its prompts, and of a row a sequence. A step's time is the median of
// `repeats` prompts, and of rows: what a run here meets, with what the machine has besides. Plans whose prompts do not fit into a step are left out. Errors: what the engine reports.
Result<std::vector<sim::MeasuredStep>> measure_plans(const CalibratedModel& model,
                                                     const std::vector<StepPlan>& plans,
                                                     uint32_t repeats);

}  // namespace tenon
