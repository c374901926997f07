// Gemma 3n, BitNet and A.X K1: what they make of a config.json, and what they refuse. That their
// arithmetic is right is the goldens' to show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/model/blocks/mlp.h"
#include "core/model/blocks/streams.h"
#include "tests/unit/model/families/router_file.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

std::string three_layers(const std::string& more) {
  return R"("num_hidden_layers":3,"layer_types":["sliding_attention","full_attention",
      "sliding_attention"],"num_kv_shared_layers":1,)" +
         more;
}

TEST(StreamFamilies, gemma3n_cuts_the_gates_of_its_first_ten_layers_where_nothing_says_which) {
  const ModelPlan plan = plan_with("gemma3n_text", R"("hidden_size":64)");
  ASSERT_EQ(plan.layers.size(), 35u);
  EXPECT_TRUE(plan.layers[9].mlp.cuts_gate);
  EXPECT_FALSE(plan.layers[10].mlp.cuts_gate);
  EXPECT_THAT(plan.layers[0].mlp.gate_cutoff, FloatNear(1.6448534f, 1e-6f));
  EXPECT_EQ(plan.layers[4].attention.window_tokens, 0u);
  EXPECT_EQ(plan.layers[5].attention.window_tokens, 512u);
  EXPECT_EQ(plan.layers[34].attention.kv_from_layer, 19);
  EXPECT_EQ(plan.layers[33].attention.kv_from_layer, 18);
  EXPECT_EQ(plan.streams().count, 4u);
}

TEST(StreamFamilies, gemma3n_may_have_a_width_and_a_cutoff_for_each_layer) {
  const ModelPlan plan = plan_with("gemma3n_text", three_layers(R"("intermediate_size":[5,6,7],
      "activation_sparsity_pattern":[0.5,0.0,0.8])"));
  EXPECT_EQ(plan.layers[2].mlp.width, 7u);
  EXPECT_TRUE(plan.layers[0].mlp.cuts_gate);
  EXPECT_THAT(plan.layers[0].mlp.gate_cutoff, FloatNear(0.0f, 1e-7f));
  EXPECT_FALSE(plan.layers[1].mlp.cuts_gate);
}

TEST(StreamFamilies, gemma3n_refuses_lists_of_another_length_and_numbers_out_of_range) {
  EXPECT_THAT(refusal_with("gemma3n_text", three_layers(R"("intermediate_size":[5,6])")),
              HasSubstr("expected a list of 3 whole numbers from 1, one a layer"));
  for (const char* pattern : {"[0.5,0.5]", "[0.5,0.5,1.0]", "[-0.1,0.5,0.5]", "0.5"}) {
    EXPECT_THAT(
        refusal_with("gemma3n_text", three_layers(R"("activation_sparsity_pattern":)") + pattern),
        HasSubstr("'activation_sparsity_pattern' is "));
  }
  EXPECT_THAT(refusal_with("gemma3n_text", R"("num_hidden_layers":3)"),
              HasSubstr("'num_kv_shared_layers' is 15; of 3 layers one at least has its own"));
  EXPECT_THAT(refusal_with("gemma3n_text", three_layers(R"("altup_active_idx":4)")),
              HasSubstr("'altup_active_idx'"));
}

TEST(StreamFamilies, tokens_without_per_layer_embeddings_read_the_first_row) {
  const ModelPlan plan =
      plan_with("gemma3n_text", three_layers(R"("vocab_size_per_layer_input":10)"));
  EXPECT_EQ(plan.layer_input_row(9), 9u);
  EXPECT_EQ(plan.layer_input_row(10), 0u);
}

TEST(StreamFamilies, a_gate_is_cut_at_deviations_above_its_mean) {
  std::vector<float> row = {1.0f, 3.0f, 1.0f, 3.0f};  // mean 2, deviation 1
  cut_gate(0.5f, 4, row.data());
  EXPECT_THAT(row, ElementsAre(0.0f, 0.5f, 0.0f, 0.5f));
}

TEST(StreamFamilies, a_row_is_scaled_to_the_length_of_another) {
  const std::vector<float> like = {2.0f, 2.0f};
  std::vector<float> row = {0.0f, 1.0f}, none = {0.0f, 0.0f};
  scale_to_length_of(like.data(), 2, row.data());
  EXPECT_THAT(row, ElementsAre(0.0f, FloatNear(2.8284271f, 1e-6f)));
  scale_to_length_of(like.data(), 2, none.data());
  EXPECT_THAT(none, ElementsAre(0.0f, 0.0f));
}

TEST(StreamFamilies, bitnet_norms_heads_that_fill_the_stream) {
  EXPECT_TRUE(plan_with("bitnet", R"("hidden_size":40)").layers[0].attention.attended_norm);
  EXPECT_THAT(refusal_with("bitnet", R"("hidden_size":40,"head_dim":4)"),
              HasSubstr("20 heads of 4 are normed together as one row of 'hidden_size' 40"));
}

TEST(StreamFamilies, ax_k1_has_a_norm_after_experts_alone_and_makes_q_in_two_steps) {
  const ModelPlan plan = plan_with("axk1", R"("num_hidden_layers":2)");
  EXPECT_FALSE(plan.layers[0].mlp_post_norm);
  EXPECT_TRUE(plan.layers[1].mlp_post_norm);
  EXPECT_THAT(refusal_with("axk1", R"("num_hidden_layers":2,"q_lora_rank":null)"),
              HasSubstr("'q_lora_rank' is null; this family makes q in two steps"));
}

}  // namespace
}  // namespace tenon
