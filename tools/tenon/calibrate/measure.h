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

// A model, what its steps need, and how long they took.
struct CalibratedModel {
  std::string name, path;
  bool held_out = false;
  std::unique_ptr<sim::StepModel> steps = {};  // from the first round on
  // [plans] seconds of a step of prompts, and of a row a sequence: of each round one. None of plans
  // whose prompts do not fit into a step.
  std::vector<std::vector<double>> prompts = {}, rows = {};
};

// Opens the model and does each plan once, after one that wakes workers and touches memory. Errors:
// what the pipeline and the engine report.
Status measure_round(const std::vector<StepPlan>& plans, uint32_t threads, CalibratedModel& model);

// Two steps of each plan, whose time is the median over the rounds: other programs, and other
// guests of the machine, often take a part of it for longer than a round's look at a model.
std::vector<sim::MeasuredStep> measured_steps(const std::vector<StepPlan>& plans,
                                              const CalibratedModel& model);

}  // namespace tenon
