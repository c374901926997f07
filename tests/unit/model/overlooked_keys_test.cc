// What the reference makes of keys in places where it does not look for them, or in another order
// than one would think. Each value was computed by transformers 5.24.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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

// What transformers' attribute_map calls another name of a key outweighs the key.
TEST(OverlookedKeys, exaone_and_lfm3_have_what_the_other_names_say) {
  const auto exaone = [](const std::string& keys) {
    return plan_of(R"({"model_type":"exaone","num_hidden_layers":2,"hidden_act":"silu",
                       "rms_norm_eps":0.001)" +
                   keys + "}");
  };
  EXPECT_EQ(exaone("").layers.size(), 2u);
  EXPECT_EQ(exaone(R"(,"num_layers":3)").layers.size(), 3u);
  EXPECT_EQ(exaone(R"(,"layer_norm_epsilon":0.01)").final_norm.eps, 0.01f);
  EXPECT_EQ(exaone(R"(,"activation_function":"relu")").layers[0].mlp.activation, Activation::relu);
  EXPECT_EQ(plan_of(R"({"model_type":"lfm3","norm_eps":0.001,"rms_norm_eps":0.01})").final_norm.eps,
            0.01f);
}

// The reference masks all that such layers could see, and attends to everything alike.
TEST(OverlookedKeys, qwen_moe_refuses_layers_that_slide_where_windows_are_not_used) {
  const std::string config =
      R"({"model_type":"qwen2_moe","num_hidden_layers":1,"layer_types":["sliding_attention"],)";
  EXPECT_THAT(refusal(config + R"("sliding_window":7})"), HasSubstr("there is no sliding window"));
  EXPECT_EQ(refusal(config + R"("sliding_window":7,"use_sliding_window":true})"), "none");
  for (const std::string family : {"qwen2_moe", "qwen3_moe"}) {
    const std::string zero = R"({"model_type":")" + family + R"(","sliding_window":0)";
    EXPECT_EQ(refusal(zero + "}"), "none") << family;
    EXPECT_THAT(refusal(zero + R"(,"use_sliding_window":true})"),
                HasSubstr("'sliding_window' is 0"))
        << family;
  }
}

TEST(OverlookedKeys, kimi_linear_and_ling_have_what_their_own_names_say) {
  for (const std::string family : {"kimi_linear", "bailing_hybrid"}) {
    SCOPED_TRACE(family);
    const ModelPlan plan = plan_of(R"({"model_type":")" + family + R"(","num_experts":8,
        "num_experts_per_tok":3,"num_experts_per_token":2,"n_group":1,"num_expert_group":4,
        "topk_group":2,"norm_topk_prob":true,"moe_renormalize":false,"n_shared_experts":2,
        "num_shared_experts":1,"moe_intermediate_size":16,"max_position_embeddings":64,
        "model_max_length":128})");
    const ExpertsPlan& experts = plan.layers.back().experts;
    EXPECT_EQ(experts.chosen, 2u);
    EXPECT_EQ(experts.groups, 4u);
    EXPECT_FALSE(experts.normalised);
    EXPECT_EQ(experts.shared_width, 16u);
    EXPECT_EQ(plan.context_tokens, 128u);
  }
}

TEST(OverlookedKeys, step_and_nemotron_h_have_what_the_other_names_say) {
  const ModelPlan step = plan_of(R"({"model_type":"step3p5","num_key_value_heads":8,
      "num_attention_groups":4,"share_expert_dim":16,"share_expert_dims":32,
      "num_experts_per_tok":8,"moe_top_k":3,"n_routed_experts":16,"moe_num_experts":16})");
  EXPECT_EQ(step.layers.back().attention.kv_heads, 4u);
  EXPECT_EQ(step.layers.back().experts.shared_width, 32u);
  EXPECT_EQ(step.layers.back().experts.chosen, 3u);
  EXPECT_EQ(step.layers.back().experts.count, 16u);
  const ModelPlan nemotron = plan_of(R"({"model_type":"nemotron_h",
      "layers_block_type":["full_attention","mlp"],"layer_types":["mlp","full_attention"]})");
  EXPECT_FALSE(nemotron.layers.front().attends());
  EXPECT_TRUE(nemotron.layers.back().attends());
}

TEST(OverlookedKeys, ernie_and_longcat_choose_as_many_experts_as_the_general_name_says) {
  const auto chosen = [](const std::string& config) {
    const ModelPlan plan = plan_of(config);
    return std::ranges::find_if(
               plan.layers, [](const LayerPlan& layer) { return static_cast<bool>(layer.experts); })
        ->experts.chosen;
  };
  const std::pair<const char*, const char*> keys[] = {{"ernie4_5_moe", "moe_k"},
                                                      {"longcat_flash", "moe_topk"}};
  for (const auto& [family, own] : keys) {
    const std::string config = R"({"model_type":")" + std::string(family) + R"(",")" + own + "\":4";
    EXPECT_EQ(chosen(config + "}"), 4u) << family;
    EXPECT_EQ(chosen(config + R"(,"num_experts_per_tok":3})"), 3u) << family;
  }
}

TEST(OverlookedKeys, two_names_for_the_number_of_experts_must_agree) {
  const std::pair<const char*, const char*> keys[] = {{"step3p5", "n_routed_experts"},
                                                      {"ernie4_5_moe", "num_experts"}};
  for (const auto& [family, other] : keys) {
    const std::string config =
        R"({"model_type":")" + std::string(family) + R"(","moe_num_experts":16,")" + other + "\":";
    EXPECT_EQ(refusal(config + "16}"), "none") << family;
    EXPECT_THAT(refusal(config + "17}"), HasSubstr("'" + std::string(other) +
                                                   "' is 17 and 'moe_num_experts' 16; expected "
                                                   "the same number"))
        << family;
  }
}

TEST(OverlookedKeys, zamba_2_with_two_lists_of_layers_needs_them_to_be_the_same) {
  const auto answer = [](const std::string& types) {
    return refusal(R"({"model_type":"zamba2","layers_block_type":["mamba","hybrid"],
                       "layer_types":)" +
                   types + "}");
  };
  EXPECT_THAT(answer(R"(["hybrid","mamba"])"), HasSubstr("are not the same"));
  EXPECT_EQ(answer(R"(["mamba","hybrid"])"), "none");
}

TEST(OverlookedKeys, hunyuan_a13b_chooses_as_many_experts_as_the_general_name_says) {
  const auto chosen = [](const std::string& keys) {
    return plan_of(R"({"model_type":"hunyuan_v1_moe","num_experts":8,"moe_topk":2)" + keys + "}")
        .layers[0]
        .experts.chosen;
  };
  EXPECT_EQ(chosen(""), 2u);
  EXPECT_EQ(chosen(R"(,"num_experts_per_tok":3)"), 3u);
}

TEST(OverlookedKeys, ling_stretches_its_usual_context_next_to_the_contexts_own_name) {
  const auto original = [](const std::string& key, const std::string& inside) {
    return plan_of(R"({"model_type":"bailing_hybrid","n_group":1,"topk_group":1,")" + key +
                   R"(":128,"rope_parameters":{"rope_type":"yarn","factor":4.0)" + inside + "}}")
        .ropes.at(0)
        .scaling.original_context_tokens;
  };
  EXPECT_EQ(original("model_max_length", ""), 262144u);
  EXPECT_EQ(original("max_position_embeddings", ""), 128u);
  EXPECT_EQ(original("max_position_embeddings\":64,\"model_max_length", ""), 64u);
  EXPECT_EQ(original("model_max_length", R"(,"original_max_position_embeddings":64)"), 64u);
}

TEST(OverlookedKeys, gpt_neox_with_heads_of_another_size_is_refused) {
  const std::string config =
      R"({"model_type":"gpt_neox","hidden_size":60,"num_attention_heads":3,"head_dim":)";
  EXPECT_THAT(refusal(config + "8}"), HasSubstr("'head_dim' is not 20"));
  EXPECT_EQ(refusal(config + "20}"), "none");
}

TEST(OverlookedKeys, gpt_2_has_no_intermediate_size) {
  EXPECT_EQ(plan_of(R"({"model_type":"gpt2","intermediate_size":40})").layers[0].mlp.width, 3072u);
}

TEST(OverlookedKeys, a_rope_type_of_null_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"llama","rope_parameters":{"rope_type":null}})"),
              HasSubstr("'rope_parameters.rope_type' is null"));
}

}  // namespace
}  // namespace tenon
