// What the dense families that vary Llama's layer make of a config.json, where no golden of
// transformers can say it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/families/family.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> ropes(const ModelPlan& plan) {
  std::vector<int32_t> ropes;
  for (const LayerPlan& layer : plan.layers) ropes.push_back(layer.attention.rope);
  return ropes;
}
std::vector<uint32_t> windows(const ModelPlan& plan) {
  std::vector<uint32_t> windows;
  for (const LayerPlan& layer : plan.layers) windows.push_back(layer.attention.window_tokens);
  return windows;
}

TEST(DenseFamilies, olmo_3_scales_the_rotation_of_layers_without_a_window_alone) {
  const ModelPlan plan = plan_of(R"({"model_type":"olmo3","num_hidden_layers":5,"rope_theta":1e4,
      "sliding_window":32,"rope_scaling":{"rope_type":"linear","factor":8.0}})");
  EXPECT_THAT(windows(plan), ElementsAre(32, 32, 32, 0, 32));
  EXPECT_THAT(ropes(plan), ElementsAre(1, 1, 1, 0, 1));
  ASSERT_EQ(plan.ropes.size(), 2u);
  EXPECT_EQ(plan.ropes[0].theta, 1e4);
  EXPECT_EQ(plan.ropes[0].scaling.factor, 8.0);
  EXPECT_EQ(plan.ropes[1].theta, 5e5);
  EXPECT_EQ(plan.ropes[1].scaling.kind, RopeScalingKind::none);
}

TEST(DenseFamilies, exaone_4_turns_all_layers_where_none_has_a_window) {
  const std::string sizes = R"({"model_type":"exaone4","num_hidden_layers":3,)";
  EXPECT_THAT(ropes(plan_of(sizes + R"("sliding_window":null})")), ElementsAre(0, 0, 0));
  const ModelPlan plan = plan_of(sizes + R"("sliding_window":8,"sliding_window_pattern":2})");
  EXPECT_THAT(ropes(plan), ElementsAre(0, -1, 0));
  EXPECT_THAT(windows(plan), ElementsAre(8, 0, 8));
  EXPECT_THAT(refusal(sizes + R"("sliding_window_pattern":"LLLG"})"),
              HasSubstr("'sliding_window_pattern' is \"LLLG\"; expected an integer"));
}

TEST(DenseFamilies, command_r7b_turns_layers_with_a_window_alone) {
  const std::string sizes = R"({"model_type":"cohere2","num_hidden_layers":5,)";
  EXPECT_THAT(ropes(plan_of(sizes + R"("sliding_window":8})")), ElementsAre(0, 0, 0, -1, 0));
  EXPECT_THAT(ropes(plan_of(sizes + R"("sliding_window":null})")), ElementsAre(-1, -1, -1, -1, -1));
  // Another than Cohere's where nothing says it.
  EXPECT_EQ(plan_of(sizes + R"("sliding_window":8})").ropes[0].theta, 10000.0);
}

TEST(DenseFamilies, hunyuan_stretches_the_base_by_alpha) {
  const std::string sizes = R"({"model_type":"hunyuan_v1_dense","head_dim":8,"use_qk_norm":true,)";
  const ModelPlan plan =
      plan_of(sizes + R"("rope_scaling":{"type":"dynamic","alpha":8.0,"factor":1.0}})");
  EXPECT_TRUE(plan.layers[0].attention.qk_norm_after_rope);
  EXPECT_EQ(plan.ropes[0].theta, 160000.0);  // 8^(8/6) = 16
  EXPECT_EQ(plan.ropes[0].scaling.kind, RopeScalingKind::none);
  const ModelPlan other = plan_of(sizes + R"("rope_scaling":{"type":"dynamic","factor":4.0}})");
  EXPECT_EQ(other.ropes[0].scaling.kind, RopeScalingKind::dynamic);
}

TEST(DenseFamilies, keys_are_read_as_they_were_published) {
  const ModelPlan exaone = plan_of(R"({"model_type":"exaone","architectures":["ExaoneForCausalLM"],
      "num_layers":3,"layer_norm_epsilon":0.25,"activation_function":"gelu"})");
  EXPECT_EQ(exaone.layers.size(), 3u);
  EXPECT_EQ(exaone.final_norm.eps, 0.25f);
  EXPECT_EQ(exaone.layers[0].mlp.activation, Activation::gelu);
  const ModelPlan intern = plan_of(R"({"model_type":"internlm3","qkv_bias":true,"bias":true,
      "architectures":["InternLM3ForCausalLM"]})");
  EXPECT_TRUE(intern.layers[0].attention.output_bias && intern.layers[0].mlp.bias);
  EXPECT_EQ(
      plan_of(R"({"model_type":"ernie4_5","architectures":["Ernie4_5_ForCausalLM"]})").architecture,
      "ernie4_5");
  EXPECT_THAT(plan_of(R"({"model_type":"glm4"})").eos, ElementsAre(151329, 151336, 151338));
  EXPECT_EQ(plan_of(R"({"model_type":"apertus","rope_theta":5.0})").ropes[0].theta, 12e6);
}

TEST(DenseFamilies, a_null_size_of_heads_is_not_the_usual_one) {
  const std::string sizes = R"({"model_type":"seed_oss","hidden_size":80,"num_attention_heads":8,)";
  EXPECT_EQ(plan_of(sizes + R"("head_dim":null})").layers[0].attention.head_dim, 10u);
  EXPECT_EQ(plan_of(sizes + R"("bos_token_id":0})").layers[0].attention.head_dim, 128u);
}

TEST(DenseFamilies, layers_of_granite_may_have_bases_of_their_own) {
  const std::string sizes = R"({"model_type":"granite_swa","num_hidden_layers":4,)";
  const ModelPlan plan = plan_of(sizes + R"("layer_rope_theta":[0,500,1e4,500.0]})");
  EXPECT_THAT(ropes(plan), ElementsAre(-1, 0, 1, 0));
  EXPECT_EQ(plan.ropes[1].theta, 1e4);
  EXPECT_THAT(windows(plan), ElementsAre(0, 128, 128, 128));
  EXPECT_THAT(refusal(sizes + R"("layer_rope_theta":[0,500]})"),
              HasSubstr("'layer_rope_theta' is a list of 2; expected a list of 4 numbers"));
}

TEST(DenseFamilies, what_a_reference_cannot_run_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"helium","head_dim":64})"),
              HasSubstr("20 heads of 64 are not 'hidden_size', 2560"));
  EXPECT_THAT(refusal(R"({"model_type":"internlm3","qkv_bias":true})"),
              HasSubstr("'qkv_bias' and 'bias' are not the same"));
  EXPECT_THAT(refusal(R"({"model_type":"iquestcoder","use_sliding_window":true})"),
              HasSubstr("'use_sliding_window' is true"));
}

TEST(DenseFamilies, tensors_in_gguf_files_are_called_what_llama_cpp_calls_them) {
  const auto stored = [](std::string_view family, const std::string& name) {
    return TensorNames(*find_family(family)).stored("model.layers.3." + name);
  };
  EXPECT_EQ(stored("seed_oss", "post_attention_layernorm.weight"),
            "blk.3.post_attention_norm.weight");
  EXPECT_EQ(stored("glm4", "post_self_attn_layernorm.weight"), "blk.3.post_attention_norm.weight");
  EXPECT_EQ(stored("glm4", "post_attention_layernorm.weight"), "blk.3.ffn_norm.weight");
  EXPECT_EQ(stored("glm4", "post_mlp_layernorm.weight"), "blk.3.post_ffw_norm.weight");
  EXPECT_EQ(stored("glm", "mlp.gate_up_proj.weight"), "blk.3.ffn_up.weight");
  EXPECT_EQ(stored("hunyuan_v1_dense", "self_attn.query_layernorm.weight"),
            "blk.3.attn_q_norm.weight");
  EXPECT_EQ(stored("exaone4", "post_feedforward_layernorm.weight"), "blk.3.post_ffw_norm.weight");
  EXPECT_EQ(TensorNames(*find_family("exaone")).stored("transformer.h.1.mlp.c_fc_0.weight"),
            "blk.1.ffn_gate.weight");
}

}  // namespace
}  // namespace tenon
