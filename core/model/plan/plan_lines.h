// A plan in words, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "core/model/plan/model_plan.h"

namespace tenon {

// A member of a plan that is not what it is by default.
struct PlanLine {
  std::string of;     // "the model", "positions 0", "layers 0 to 5"
  std::string what;   // "the number of heads"
  std::string key;    // what says it: "'num_attention_heads'" in config.json
  std::string value;  // "12"; of a list its length
};

// In the order of the structs; layers that are alike and follow each other are told once.
std::vector<PlanLine> plan_lines(const ModelPlan& plan);

}  // namespace tenon
