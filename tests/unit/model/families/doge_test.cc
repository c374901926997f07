// Configs of Doge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/tensors/tensor_roles.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::string doge(const std::string& more) {
  return R"({"model_type":"doge","hidden_size":12,"num_attention_heads":3,
             "num_key_value_heads":1,"vocab_size":16,"num_hidden_layers":1)" +
         more + "}";
}

TEST(Doge, k_has_an_element_more_than_v) {
  const ModelPlan plan = plan_of(doge(""));
  const ModelShapeStorage shape(plan, 64);
  EXPECT_EQ(shape.shape().groups[0].k_dim, 5u);
  EXPECT_EQ(shape.shape().groups[0].v_dim, 4u);
  std::vector<std::string> names;
  for (const TensorSpec& spec : list_tensors(plan)) names.push_back(spec.name);
  for (const char* name :
       {"self_attn.dt_proj.weight", "self_attn.A", "input_residual", "post_attention_residual"}) {
    EXPECT_THAT(names, testing::Contains("model.layers.0." + std::string(name)));
  }
}

TEST(Doge, texts_are_no_longer_than_what_is_not_masked) {
  EXPECT_EQ(plan_of(doge(R"(,"max_position_embeddings":4096)")).context_tokens, 2048u);
  EXPECT_EQ(plan_of(doge(R"(,"keep_window_size":9)")).context_tokens, 9u);
  EXPECT_EQ(plan_of(doge(R"(,"keep_window_size":9,"sliding_window":9)")).context_tokens, 2048u);
  EXPECT_EQ(plan_of(doge(R"(,"keep_window_size":9,"sliding_window":10)")).context_tokens, 9u);
}

TEST(Doge, experts_are_refused) {
  EXPECT_THAT(refusal(doge(R"(,"is_moe":true)")), HasSubstr("'is_moe' is true"));
  EXPECT_EQ(refusal(doge(R"(,"is_moe":false,"num_experts":16384)")), "none");
}

}  // namespace
}  // namespace tenon
