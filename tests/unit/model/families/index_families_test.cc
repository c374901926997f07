// Families with an index of positions: what they make of a config.json, of GGUF metadata and of
// tensors that nobody uses. That their arithmetic is right is the goldens' to show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string keys_of(const std::string& family, const std::string& keys) {
  return R"({"model_type":")" + family + "\"," + keys + "}";
}
ModelPlan plan_with(const std::string& family, const std::string& keys) {
  return plan_of(keys_of(family, keys));
}
std::string refusal_with(const std::string& family, const std::string& keys) {
  return refusal(keys_of(family, keys));
}

std::vector<bool> makers(const ModelPlan& plan) {
  std::vector<bool> layers;
  for (const LayerPlan& layer : plan.layers) layers.push_back(layer.index.heads > 0);
  return layers;
}

TEST(IndexFamilies, published_sizes_go_without_saying) {
  const ModelPlan deepseek = plan_of(R"({"model_type":"deepseek_v32"})");
  ASSERT_EQ(deepseek.layers.size(), 61u);
  const IndexPlan& index = deepseek.layers[60].index;
  EXPECT_EQ(index.chosen, 2048u);
  EXPECT_EQ(index.heads, 64u);
  EXPECT_EQ(index.dim, 128u);
  EXPECT_EQ(index.rope_dim, 64u);
  EXPECT_FALSE(index.pairs);
  EXPECT_EQ(index.norm.kind, NormKind::layer);
  EXPECT_EQ(deepseek.layers[3].experts.groups, 8u);
  const ModelPlan glm = plan_of(R"({"model_type":"glm_moe_dsa"})");
  ASSERT_EQ(glm.layers.size(), 78u);
  EXPECT_EQ(glm.layers[0].index.heads, 32u);
  EXPECT_TRUE(glm.layers[0].index.pairs);
  EXPECT_EQ(glm.layers[0].latent.q_rank, 2048u);
}

TEST(IndexFamilies, glm_says_in_three_ways_which_layers_choose) {
  EXPECT_THAT(makers(plan_with("glm_moe_dsa", R"("num_hidden_layers":3,
                      "indexer_types":["full","shared","full"],"index_topk_freq":1)")),
              ElementsAre(true, false, true));
  EXPECT_THAT(makers(plan_with("glm_moe_dsa", R"("num_hidden_layers":3,
                      "index_topk_pattern":"FFS")")),
              ElementsAre(true, true, false));
  EXPECT_THAT(makers(plan_with("glm_moe_dsa", R"("num_hidden_layers":6,"index_topk_freq":2,
                      "index_skip_topk_offset":3)")),
              ElementsAre(true, true, true, false, true, false));
  EXPECT_THAT(makers(plan_with("glm_moe_dsa", R"("num_hidden_layers":2)")),
              ElementsAre(true, true));
}

TEST(IndexFamilies, what_cannot_be_chosen_is_refused_by_key) {
  EXPECT_THAT(refusal_with("glm_moe_dsa", R"("num_hidden_layers":2,
                           "indexer_types":["shared","full"])"),
              HasSubstr("'indexer_types' is"));
  EXPECT_THAT(refusal_with("glm_moe_dsa", R"("num_hidden_layers":2,"index_topk_pattern":"FX")"),
              HasSubstr("for each of 2 layers, the first one full"));
  EXPECT_THAT(refusal_with("deepseek_v32", R"("index_head_dim":32)"),
              HasSubstr("expected at least the 64 of 'qk_rope_head_dim' that turn"));
  EXPECT_THAT(refusal_with("deepseek_v32", R"("q_lora_rank":null)"),
              HasSubstr("an index runs with a q of two steps alone"));
  EXPECT_THAT(refusal_with("deepseek_v32", R"("num_hidden_layers":1,
                           "layer_types":["full_attention"])"),
              HasSubstr("this family runs with \"indexed_attention\" alone"));
  EXPECT_THAT(refusal_with("deepseek_v3", R"("index_topk":2048)"),
              HasSubstr("'index_topk' is 2048; an index that chooses positions is not built"));
}

TEST(Ling, sizes_that_transformers_writes_outweigh_published_ones) {
  const std::string sizes = R"("num_hidden_layers":6,"num_attention_heads":4,)";
  const auto delta = [&](const std::string& keys) {
    return plan_with("bailing_hybrid", sizes + keys).layers[0].recurrent;
  };
  EXPECT_EQ(delta(R"("head_dim":128)").state, 128u);
  EXPECT_EQ(delta(R"("head_dim":64,"linear_head_dim":96)").state, 96u);
  EXPECT_EQ(delta(R"("kda_lower_bound":-3.5)").strongest_decay, -3.5f);
  EXPECT_EQ(delta(R"("kda_lower_bound":-3.5,"kda_safe_gate":false)").strongest_decay, 0.0f);
  EXPECT_THAT(refusal_with("bailing_hybrid", R"("kda_lower_bound":1.0)"),
              HasSubstr("'kda_lower_bound' is not below 0"));
}

TEST(Ling, the_last_layer_of_each_group_attends_with_a_gate_a_head) {
  const ModelPlan plan = plan_with("bailing_hybrid", R"("num_hidden_layers":5,
                                   "layer_group_size":2)");
  std::vector<bool> attending;
  for (const LayerPlan& layer : plan.layers) attending.push_back(layer.attends());
  EXPECT_THAT(attending, ElementsAre(false, true, false, true, false));
  EXPECT_TRUE(plan.layers[1].attention.gate_by_head);
  EXPECT_EQ(plan.layers[1].attention.rope, 0);
}

}  // namespace
}  // namespace tenon
