// Configs of xLSTM.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/tensors/tensor_roles.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::string xlstm(const std::string& more) {
  return R"({"model_type":"xlstm","hidden_size":36,"num_heads":3,"vocab_size":16,
             "num_hidden_layers":2)" +
         more + "}";
}

TEST(Xlstm, widths_follow_from_factors) {
  const ModelPlan plan = plan_of(xlstm(R"(,"qk_dim_factor":0.59,"ffn_proj_factor":1.4,
                                          "ffn_round_up_to_multiple_of":7)"));
  ASSERT_EQ(plan.layers.size(), 2u);
  const LayerPlan& layer = plan.layers[0];
  EXPECT_EQ(layer.recurrent.state, 7u);                     // 21.24 / 3
  EXPECT_EQ(layer.recurrent.head_dim, 12u);                 // 36 / 3
  EXPECT_EQ(layer.mlp.width, 56u);                          // 50.4 as a multiple of 7
  EXPECT_EQ(plan_of(xlstm("")).layers[0].mlp.width, 128u);  // 96.012 as one of 64
  // C, n and m of three heads.
  EXPECT_EQ(layer.recurrent.state_bytes(), sizeof(float) * (36u * 7u + 3u * 7u + 3u));
}

TEST(Xlstm, of_two_names_of_one_thing_the_one_counts_that_transformers_builds_by) {
  EXPECT_EQ(plan_of(xlstm(R"(,"num_blocks":3)")).layers.size(), 3u);
  EXPECT_EQ(refusal(xlstm(R"(,"embedding_dim":36)")), "none");
  EXPECT_THAT(refusal(xlstm(R"(,"embedding_dim":32)")),
              HasSubstr("'embedding_dim' is 32, but 'hidden_size' 36"));
}

TEST(Xlstm, what_is_not_built_is_refused_by_its_key) {
  EXPECT_THAT(refusal(xlstm(R"(,"use_bias":true)")), HasSubstr("'use_bias' is true"));
  EXPECT_THAT(refusal(xlstm(R"(,"weight_mode":"fused")")),
              HasSubstr("'weight_mode' is \"fused\"; only \"single\" is built"));
  EXPECT_THAT(refusal(xlstm(R"(,"qk_dim_factor":0.56)")),
              HasSubstr("'qk_dim_factor' times 'hidden_size' is 20, no multiple of 'num_heads' 3"));
  EXPECT_THAT(refusal(xlstm(R"(,"v_dim_factor":0.01)")),
              HasSubstr("'v_dim_factor' times 'hidden_size' is 0"));
  EXPECT_THAT(refusal(xlstm(R"(,"gate_soft_cap":0)")), HasSubstr("'gate_soft_cap'"));
}

}  // namespace
}  // namespace tenon
