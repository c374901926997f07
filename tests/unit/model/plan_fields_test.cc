// Every member of a plan is compared, and named where it differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/plan/model_plan.h"
#include "core/model/plan/plan_difference.h"
#include "core/model/plan/plan_lines.h"

namespace tenon {
namespace {

using testing::HasSubstr;

struct Small {
  int first = 1;
  NormPlan norm;
  std::optional<TokenId> token;
  std::vector<float> values;
};

TEST(PlanFields, members_of_a_struct_are_counted) {
  EXPECT_EQ(aggregate::members<Small>(), 4u);
  EXPECT_EQ(aggregate::members<NormPlan>(), 5u);
  EXPECT_EQ(aggregate::members<RopeScaling>(), 13u);
}

// Another value of the same kind.
template <typename T>
void change(T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = !value;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(value == T{} ? 1 : 0);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value += "x";
  } else if constexpr (std::is_same_v<T, std::optional<TokenId>>) {
    value = value.value_or(6) + 1;
  } else if constexpr (std::is_same_v<T, float>) {
    value = value == 3.5f ? 4.5f : 3.5f;
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(value + 1);
  } else {
    value.emplace_back();
  }
}

struct Seen {
  size_t compared = 0;
  size_t others = 0;
};

// Changes each member of `at`, which lies in `plan`, and puts it back.
template <typename Struct>
void try_all(ModelPlan& plan, Struct& at, std::string_view what, Seen& seen) {
  const ModelPlan before = plan;
  const auto try_one = [&](const auto& field) {
    auto& member = at.*field.member;
    const std::string_view name = field.what.empty() ? what : field.what;
    if constexpr (HasPlanFields<std::remove_cvref_t<decltype(member)>>) {
      try_all(plan, member, name, seen);
    } else {
      const auto kept = member;
      change(member);
      const std::string difference = plan_difference(before, plan);
      member = kept;
      if (field.compared == Compared::yes) {
        EXPECT_THAT(difference, HasSubstr(std::string(name)));
        EXPECT_THAT(difference, HasSubstr("(" + std::string(field.key) + ") is "));
        ++seen.compared;
      } else {
        EXPECT_EQ(difference, "") << name;
        ++seen.others;
      }
    }
  };
  for_each_field<Struct>(try_one);
}

ModelPlan plan_of_one_layer() {
  ModelPlan plan;
  plan.ropes.resize(1);
  plan.layers.resize(1);
  return plan;
}

TEST(PlanFields, each_member_that_is_changed_is_named_by_the_difference) {
  ModelPlan plan = plan_of_one_layer();
  Seen seen;
  try_all(plan, plan, "", seen);
  try_all(plan, plan.layers[0], "", seen);
  try_all(plan, plan.ropes[0], "", seen);
  EXPECT_EQ(seen.others, 9u);
  EXPECT_GT(seen.compared, 100u);
}

TEST(PlanFields, each_member_that_is_not_as_usual_has_a_line) {
  ModelPlan plan = plan_of_one_layer();
  const size_t usual = plan_lines(plan).size();
  EXPECT_EQ(usual, 1u);  // the number of layers
  size_t seen = 0;
  const auto try_one = [&](const auto& field) {
    auto& member = plan.layers[0].attention.*field.member;
    if constexpr (!HasPlanFields<std::remove_cvref_t<decltype(member)>>) {
      const auto kept = member;
      change(member);
      const std::vector<PlanLine> lines = plan_lines(plan);
      member = kept;
      ASSERT_EQ(lines.size(), usual + 1) << field.what;
      EXPECT_EQ(lines.back().of, "layer 0");
      EXPECT_EQ(lines.back().what, field.what);
      EXPECT_EQ(lines.back().key, field.key);
      ++seen;
    }
  };
  for_each_field<SelfAttentionPlan>(try_one);
  EXPECT_EQ(seen, aggregate::members<SelfAttentionPlan>() - 3);  // not the norms, not q's growth
}

TEST(PlanFields, layers_that_are_alike_are_told_once) {
  ModelPlan plan;
  plan.layers.resize(5);
  for (LayerPlan& layer : plan.layers) layer.mlp.width = 40;
  plan.layers[3].attention.window_tokens = 64;
  std::vector<std::string> told;
  for (const PlanLine& line : plan_lines(plan)) {
    told.push_back(line.of + ": " + line.what + " is " + line.value);
  }
  EXPECT_THAT(
      told, testing::ElementsAre("the model: the number of layers is 5",
                                 "layers 0 to 2: the width of the MLP is 40",
                                 "layer 3: the window is 64", "layer 3: the width of the MLP is 40",
                                 "layer 4: the width of the MLP is 40"));
}

TEST(PlanFields, settings_of_rotary_scaling_are_all_compared) {
  const auto difference = [](auto change_scaling) {
    ModelPlan written = plan_of_one_layer(), read = plan_of_one_layer();
    written.ropes[0].scaling.kind = read.ropes[0].scaling.kind = RopeScalingKind::yarn;
    change_scaling(written.ropes[0].scaling);
    return plan_difference(written, read);
  };
  EXPECT_EQ(difference([](RopeScaling& scaling) { scaling.beta_fast = 48; }),
            "yarn's fast end of positions ('beta_fast') is 48, and would be read back as 32");
  EXPECT_EQ(difference([](RopeScaling& scaling) { scaling.original_context_tokens = 64; }),
            "the context before scaling of positions ('original_max_position_embeddings') is 64, "
            "and would be read back as 0");
  EXPECT_EQ(difference([](RopeScaling& scaling) { scaling.factor = 4; }),
            "the factor of the scaling of positions ('factor') is 4, and would be read back as 1");
  EXPECT_EQ(difference([](RopeScaling& scaling) { scaling.long_factors = {1.0f}; }),
            "the number of the divisors in long contexts of positions ('long_factor') is 1, and "
            "would be read back as 0");
}

TEST(PlanFields, what_scaling_does_not_use_is_not_compared) {
  ModelPlan written = plan_of_one_layer(), read = plan_of_one_layer();
  written.ropes[0].scaling.kind = RopeScalingKind::dynamic;
  written.ropes[0].scaling.factor = 8;
  EXPECT_EQ(plan_difference(written, read), "");
  written.ropes[0].scaling.kind = read.ropes[0].scaling.kind = RopeScalingKind::longrope;
  EXPECT_EQ(plan_difference(written, read), "");
}

}  // namespace
}  // namespace tenon
