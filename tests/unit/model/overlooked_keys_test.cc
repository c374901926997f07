// What the reference makes of keys in places where it does not look for them, or in another order
// than one would think. Each value was computed by transformers 5.24.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(OverlookedKeys, hidden_activation_is_none_of_llama_mistral_and_qwen) {
  for (const std::string family : {"llama", "mistral", "qwen2", "qwen3"}) {
    const ModelPlan plan =
        plan_of(R"({"model_type":")" + family + R"(","hidden_activation":"gelu"})");
    EXPECT_EQ(plan.layers[0].mlp.activation, Activation::silu) << family;
  }
}

TEST(OverlookedKeys, other_names_of_the_two_gelus_are_read) {
  const auto activation = [](const std::string& name) {
    return plan_of(R"({"model_type":"llama","hidden_act":")" + name + "\"}")
        .layers[0]
        .mlp.activation;
  };
  EXPECT_EQ(activation("gelu_python"), Activation::gelu);
  EXPECT_EQ(activation("gelu_python_tanh"), Activation::gelu_tanh);
  EXPECT_EQ(activation("gelu_accurate"), Activation::gelu_tanh);
}

// A flat setting is for no kind of layers; rope_scaling is added to that of layers without a
// window, in which an old `type` counts for nothing next to the plain rope_type.
TEST(OverlookedKeys, gemma_3_reads_settings_by_kind_alone) {
  for (const std::string family : {"gemma3_text", "gemma3n_text", "olmo3"}) {
    SCOPED_TRACE(family);
    const auto first = [&](const std::string& keys) {
      return plan_of(R"({"model_type":")" + family + R"(","num_kv_shared_layers":0,)" + keys + "}")
          .ropes.at(0);
    };
    const double usual = family == "olmo3" ? 5e5 : 1e6;
    EXPECT_EQ(first(R"("rope_parameters":{"rope_type":"default","rope_theta":500})").theta, usual);
    const RopePlan both = first(
        R"("rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":700}},
           "rope_scaling":{"rope_type":"linear","factor":4.0})");
    EXPECT_EQ(both.theta, 700.0);
    EXPECT_EQ(both.scaling.kind, RopeScalingKind::linear);
    const RopePlan oldest = first(R"("rope_scaling":{"type":"linear","factor":4.0})");
    EXPECT_EQ(oldest.scaling.kind, RopeScalingKind::none);
  }
}

TEST(OverlookedKeys, of_three_families_settings_by_kind_are_all_that_counts) {
  const ModelPlan mellum = plan_of(R"({"model_type":"mellum","rope_theta":1e6})");
  EXPECT_EQ(mellum.ropes.at(0).theta, 5e5);
  const std::string kinds =
      R"("layer_types":["full_attention","sliding_attention"],"num_hidden_layers":2,
         "rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":700}})";
  EXPECT_THAT(refusal(R"({"model_type":"mellum",)" + kinds + "}"),
              HasSubstr("'rope_parameters.sliding_attention' is missing"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma4_text","rope_parameters":{"zzz":1}})"),
              HasSubstr("'rope_parameters.full_attention' is missing"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma4_text","rope_parameters":{"full_attention":{},
                          "sliding_attention":{"rope_theta":100}}})"),
              HasSubstr("'rope_parameters.full_attention' has no 'rope_theta'"));
}

TEST(OverlookedKeys, step_takes_a_part_of_heads_next_to_its_settings) {
  const ModelPlan plan = plan_of(R"({"model_type":"step3p5","num_hidden_layers":1,"head_dim":16,
      "partial_rotary_factor":0.25,"layer_types":["full_attention"],
      "rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":700}}})");
  EXPECT_EQ(plan.ropes.at(0).dim, 4u);
}

TEST(OverlookedKeys, command_a_plus_has_no_rope_scaling) {
  const auto rope = [](const std::string& keys) {
    return plan_of(R"({"model_type":"cohere2_moe",)" + keys + "}").ropes.at(0);
  };
  const RopePlan overlooked =
      rope(R"("rope_theta":700,"rope_scaling":{"rope_type":"linear","factor":4.0})");
  EXPECT_EQ(overlooked.scaling.kind, RopeScalingKind::none);
  EXPECT_EQ(overlooked.theta, 700.0);
  const RopePlan read =
      rope(R"("rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":700})");
  EXPECT_EQ(read.scaling.kind, RopeScalingKind::linear);
}

TEST(OverlookedKeys, smollm3_has_the_windows_of_layer_types_whatever_use_sliding_window_says) {
  const auto window = [](const std::string& keys) {
    return plan_of(R"({"model_type":"smollm3","num_hidden_layers":1,"no_rope_layers":[0],
                       "use_sliding_window":false,"sliding_window":5)" +
                   keys + "}")
        .layers[0]
        .attention.window_tokens;
  };
  EXPECT_EQ(window(""), 0u);
  EXPECT_EQ(window(R"(,"layer_types":["sliding_attention"])"), 5u);
}

// Where the reference computes head_dim before it takes the file's, the file's is what turns.
TEST(OverlookedKeys, sizes_of_latent_heads_that_contradict_others_are_refused) {
  const std::string sizes =
      R"("qk_nope_head_dim":12,"qk_rope_head_dim":8,"n_group":1,"topk_group":1,)";
  for (const std::string family : {"deepseek_v3", "youtu", "axk1", "glm4_moe_lite"}) {
    SCOPED_TRACE(family);
    const std::string config = R"({"model_type":")" + family + "\"," + sizes;
    EXPECT_THAT(refusal(config + R"("head_dim":2})"),
                HasSubstr("'head_dim' is 2; expected 8, which is 'qk_rope_head_dim'"));
    EXPECT_THAT(refusal(config + R"("qk_head_dim":24})"), HasSubstr("'qk_head_dim' is 24"));
    EXPECT_EQ(refusal(config + R"("head_dim":8,"qk_head_dim":20})"), "none");
  }
  EXPECT_EQ(refusal(R"({"model_type":"deepseek_v2","num_experts_per_tok":2,)" + sizes +
                    R"("head_dim":2})"),
            "none");
}

TEST(OverlookedKeys, a_null_where_yes_goes_without_saying_means_no) {
  for (const std::string family : {"deepseek_v3", "axk1", "mistral4"}) {
    const auto normalised = [&](const std::string& keys) {
      return plan_of(R"({"model_type":")" + family + R"(","n_group":1,"topk_group":1)" + keys + "}")
          .layers.back()
          .experts.normalised;
    };
    EXPECT_TRUE(normalised("")) << family;
    EXPECT_FALSE(normalised(R"(,"norm_topk_prob":null)")) << family;
  }
  EXPECT_FALSE(plan_of(R"({"model_type":"kimi_linear","moe_renormalize":null})")
                   .layers.back()
                   .experts.normalised);
  EXPECT_FALSE(plan_of(R"({"model_type":"falcon","parallel_attn":null})").layers[0].parallel);
}

TEST(OverlookedKeys, gemma_4_has_heads_of_one_kind_where_per_layer_config_is_null) {
  const auto head_dim = [](const std::string& keys) {
    return plan_of(R"({"model_type":"gemma4_text","head_dim":64)" + keys + "}")
        .layers.back()
        .attention.head_dim;
  };
  EXPECT_EQ(head_dim(""), 512u);
  EXPECT_EQ(head_dim(R"(,"per_layer_config":null)"), 64u);
}

TEST(OverlookedKeys, a_rope_type_of_null_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"llama","rope_parameters":{"rope_type":null}})"),
              HasSubstr("'rope_parameters.rope_type' is null"));
}

}  // namespace
}  // namespace tenon
