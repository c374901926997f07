// A config.json as a plan, or why it is none.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/model/model_config.h"

namespace tenon {

inline ModelPlan plan_of(const std::string& json) {
  Result<ModelPlan> plan = parse_model_config(json, "c.json");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *std::move(plan) : ModelPlan();
}

inline std::string refusal(const std::string& json) {
  const Result<ModelPlan> plan = parse_model_config(json, "c.json");
  return plan.ok() ? "none" : std::string(plan.status().message());
}

}  // namespace tenon
