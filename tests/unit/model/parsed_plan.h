// A config.json as a plan, or why it is none.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/model/config/model_config.h"
#include "core/model/families/families.h"
#include "core/model/families/family.h"

namespace tenon {

// The keys without which a family's config is refused: Granite 4 with experts is not built, and
// DeepSeek-V2 and dots.llm1 have no usual choice of experts. DeepSeek-V3's groups would need many.
// GLM-4.5's 96 heads do not fill its width, Gemma 3n shares the K and V of more layers than small
// models have, and Zamba 2's list of layers decides how many there are.
inline std::string least_of(const Family& family) {
  const std::string name = R"("model_type":")" + std::string(family.model_type) + "\"";
  if (&family == &kGraniteHybrid) return name + R"(,"num_local_experts":0)";
  if (&family == &kDeepseekV2 || &family == &kDots1) return name + R"(,"num_experts_per_tok":2)";
  if (&family == &kGemma3n) return name + R"(,"num_kv_shared_layers":0)";
  if (&family == &kZamba2) return name + R"(,"layers_block_type":["mamba","hybrid"])";
  if (&family == &kGlm4Moe) return name + R"(,"head_dim":128)";
  if (&family == &kDeepseekV3 || &family == &kDeepseekV32 || &family == &kBailingHybrid ||
      &family == &kAxK1)
    return name + R"(,"n_group":1,"topk_group":1)";
  return name;
}

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
