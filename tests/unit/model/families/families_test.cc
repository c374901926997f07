// What families make of a config.json. That their arithmetic is right is the goldens' to show.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/families/family.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> windows(const ModelPlan& plan) {
  std::vector<uint32_t> windows;
  for (const LayerPlan& layer : plan.layers) windows.push_back(layer.attention.window_tokens);
  return windows;
}

std::vector<int32_t> ropes(const ModelPlan& plan) {
  std::vector<int32_t> ropes;
  for (const LayerPlan& layer : plan.layers) ropes.push_back(layer.attention.rope);
  return ropes;
}

TEST(Families, each_reads_a_config_that_says_little_but_its_name) {
  for (const Family* family : families()) {
    SCOPED_TRACE(family->model_type);
    const ModelPlan plan = plan_of("{" + least_of(*family) + "}");
    ASSERT_FALSE(plan.layers.empty());
    EXPECT_EQ(&family_of(plan), family);
    for (const TensorSpec& spec : list_tensors(plan)) {
      EXPECT_THAT(spec.name, testing::Not(HasSubstr("?")));
      EXPECT_GT(spec.rows, 0u) << spec.name;
    }
  }
}

TEST(Families, names_of_tensors_in_gguf_files_can_be_undone_for_each) {
  for (const Family* family : families()) {
    if (family->architecture.empty()) continue;  // refused as a GGUF file
    SCOPED_TRACE(family->model_type);
    const TensorNames names(*family);
    const ModelPlan plan =
        plan_of(R"({"num_hidden_layers":2,"n_layer":2,)" + least_of(*family) + "}");
    for (const TensorSpec& spec : list_tensors(plan)) {
      EXPECT_NE(names.stored(spec.name), spec.name);
      EXPECT_EQ(names.name_of_stored(names.stored(spec.name)), spec.name);
    }
  }
}

TEST(Families, gemma_2_sees_everything_in_every_other_layer) {
  const ModelPlan plan = plan_of(R"({"model_type":"gemma2","num_hidden_layers":4})");
  EXPECT_THAT(windows(plan), ElementsAre(4096, 0, 4096, 0));
  EXPECT_EQ(plan.layers[0].attention.soft_cap, 50.0f);
  EXPECT_EQ(plan.logit_soft_cap, 30.0f);
  EXPECT_EQ(plan.embedding_scale, 48.0f);
}

TEST(Families, gemma_3_turns_layers_with_a_window_by_a_setting_of_their_own) {
  const ModelPlan plan = plan_of(R"({"model_type":"gemma3_text","num_hidden_layers":7,
      "sliding_window":512,"rope_theta":5e5,"rope_scaling":{"rope_type":"linear","factor":8}})");
  EXPECT_THAT(windows(plan), ElementsAre(512, 512, 512, 512, 512, 0, 512));
  EXPECT_THAT(ropes(plan), ElementsAre(1, 1, 1, 1, 1, 0, 1));
  ASSERT_EQ(plan.ropes.size(), 2u);
  EXPECT_EQ(plan.ropes[0].theta, 5e5);
  EXPECT_EQ(plan.ropes[0].scaling.factor, 8.0);
  EXPECT_EQ(plan.ropes[1].theta, 1e4);
  EXPECT_EQ(plan.ropes[1].scaling.kind, RopeScalingKind::none);
}

TEST(Families, gemma_3_looks_for_truncate_beside_the_types_of_layers_alone) {
  const auto truncates = [](const std::string& inside, const std::string& beside) {
    const ModelPlan plan = plan_of(R"({"model_type":"gemma3_text","rope_parameters":{)" + beside +
                                   R"("full_attention":{"rope_type":"yarn","factor":4.0)" + inside +
                                   R"(},"sliding_attention":{"rope_type":"default"}}})");
    return plan.ropes.at(0).scaling.truncate;
  };
  EXPECT_TRUE(truncates(R"(,"truncate":false)", ""));
  EXPECT_FALSE(truncates("", R"("truncate":false,)"));
  EXPECT_FALSE(truncates("", R"("truncate":null,)"));
}

TEST(Families, settings_of_types_of_layers_have_no_truncate_of_their_own) {
  const auto truncates = [](const std::string& family, const std::string& inside,
                            const std::string& beside) {
    const std::string yarn = R"({"rope_type":"yarn","rope_theta":1e4,"factor":4.0,)"
                             R"("original_max_position_embeddings":64)" +
                             inside + "}";
    const ModelPlan plan =
        plan_of(R"({"model_type":")" + family + R"(","head_dim":64,)" + R"("rope_parameters":{)" +
                beside + R"("full_attention":)" + yarn + R"(,"sliding_attention":)" + yarn + "}}");
    return plan.ropes.at(0).scaling.truncate;
  };
  for (const std::string family : {"gemma4_text", "lfm3", "step3p5", "laguna", "mellum", "olmo3"}) {
    EXPECT_TRUE(truncates(family, R"(,"truncate":false)", "")) << family;
    EXPECT_EQ(truncates(family, "", R"("truncate":false,)"), family == "step3p5") << family;
  }
}

TEST(Families, a_null_for_truncate_means_no_as_in_the_reference) {
  const auto truncates = [](const std::string& keys) {
    return plan_of(R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4.0)" +
                   keys + "}}")
        .ropes.at(0)
        .scaling.truncate;
  };
  EXPECT_TRUE(truncates(""));
  EXPECT_TRUE(truncates(R"(,"truncate":true)"));
  EXPECT_FALSE(truncates(R"(,"truncate":null)"));
}

TEST(Families, smollm3_has_no_positions_in_every_fourth_layer) {
  const ModelPlan plan = plan_of(R"({"model_type":"smollm3","num_hidden_layers":5})");
  EXPECT_THAT(ropes(plan), ElementsAre(0, 0, 0, -1, 0));
}

TEST(Families, phi_3_turns_part_of_a_head_by_longrope) {
  const ModelPlan plan = plan_of(R"({"model_type":"phi3","hidden_size":32,"num_attention_heads":2,
      "partial_rotary_factor":0.5,"max_position_embeddings":64,
      "original_max_position_embeddings":16,"rope_scaling":{"type":"su",
      "short_factor":[1,1,1,1],"long_factor":[2,4,8,16]}})");
  const RopePlan& rope = plan.ropes.at(0);
  EXPECT_EQ(rope.dim, 8u);
  EXPECT_FLOAT_EQ(static_cast<float>(rope.scaling.attention_factor), 1.2247449f);
  EXPECT_FLOAT_EQ(rope_frequencies(rope, 16)[0], 1.0f);
  EXPECT_FLOAT_EQ(rope_frequencies(rope, 17)[0], 0.5f);
}

TEST(Families, mamba_has_no_heads_and_no_mlp_and_steps_of_a_low_rank) {
  const ModelPlan plan = plan_of(R"({"model_type":"mamba","hidden_size":40,"expand":3})");
  const LayerPlan& layer = plan.layers.front();
  EXPECT_FALSE(layer.attends());
  EXPECT_FALSE(layer.has_mlp());
  EXPECT_EQ(layer.recurrent.inner(), 120u);
  EXPECT_EQ(layer.recurrent.step_rank, 3u);  // hidden / 16, rounded up
  EXPECT_EQ(layer.recurrent.state_bytes(), 4u * (3 * 120 + 120 * 16));
  const ModelShapeStorage storage(plan, 100);
  const ModelShape& shape = storage.shape();
  ASSERT_EQ(shape.group_count, 1u);
  EXPECT_EQ(shape.groups[0].kind, KvKind::recurrent);
  EXPECT_EQ(shape.groups[0].state_bytes, plan.layers.size() * layer.recurrent.state_bytes());
  EXPECT_EQ(shape.layers[1].state_offset, layer.recurrent.state_bytes());
  EXPECT_EQ(shape.layers[1].group, kNoGroup);
}

// transformers computes it from "expand", and then takes the config's own.
TEST(Families, mamba_s_intermediate_size_counts_whatever_expand_is) {
  const ModelPlan plan =
      plan_of(R"({"model_type":"mamba","hidden_size":40,"expand":3,"intermediate_size":33})");
  EXPECT_EQ(plan.layers[0].recurrent.heads, 33u);
  EXPECT_EQ(plan.layers[0].recurrent.step_rank, 3u);
  EXPECT_THAT(refusal(R"({"model_type":"mamba","intermediate_size":0})"),
              HasSubstr("'intermediate_size' is 0"));
}

TEST(Families, mamba_2_reads_limits_of_steps_in_each_spelling_of_infinity) {
  const auto limits = [](const std::string& text) {
    const ModelPlan plan = plan_of(with_spelled_infinity(
        R"({"model_type":"mamba2","num_hidden_layers":1,"time_step_limit":)" + text + "}"));
    const RecurrentPlan& recurrent = plan.layers.front().recurrent;
    return std::pair(recurrent.least_step, recurrent.most_step);
  };
  constexpr float kNone = std::numeric_limits<float>::infinity();
  EXPECT_EQ(limits("[0.0, Infinity]"), std::pair(0.0f, kNone));
  EXPECT_EQ(limits(R"([0.1, {"__float__": "Infinity"}])"), std::pair(0.1f, kNone));
  EXPECT_EQ(limits("[0.25, 0.5]"), std::pair(0.25f, 0.5f));
  EXPECT_THAT(refusal(R"({"model_type":"mamba2","time_step_limit":[0.5,0.1]})"),
              HasSubstr("'time_step_limit' is a list of 2; expected the least and the most step"));
}

TEST(Families, heads_that_do_not_fill_the_inner_width_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"mamba2","hidden_size":64,"num_heads":3,"head_dim":16})"),
              HasSubstr("3 heads ('num_heads') of 16 ('head_dim') are not the inner width 128"));
  EXPECT_THAT(refusal(R"({"model_type":"mamba2","n_groups":3})"),
              HasSubstr("'num_heads' 128 is not a multiple of 'n_groups' 3"));
  EXPECT_THAT(refusal(R"({"model_type":"mamba","hidden_act":"gelu"})"),
              HasSubstr("recurrent layers are built for \"silu\" only"));
}

TEST(Families, granite_4_attends_in_some_layers) {
  const ModelPlan plan = plan_of(R"({"model_type":"granitemoehybrid","num_local_experts":0,
      "num_hidden_layers":3,"layer_types":["mamba","attention","linear_attention"]})");
  EXPECT_FALSE(plan.layers[0].attends());
  EXPECT_TRUE(plan.layers[1].attends());
  EXPECT_FALSE(plan.layers[1].recurrent);
  EXPECT_TRUE(plan.layers[2].recurrent);
  EXPECT_TRUE(plan.ropes.empty());
  const ModelShapeStorage storage(plan, 100);
  const ModelShape& shape = storage.shape();
  ASSERT_EQ(shape.group_count, 2u);
  EXPECT_EQ(shape.groups[shape.ledger_group].kind, KvKind::attention);
  EXPECT_THAT(refusal(R"({"model_type":"granitemoehybrid","num_local_experts":0,
      "num_hidden_layers":1,"layer_types":["sliding_attention"]})"),
              HasSubstr("'layer_types' has \"sliding_attention\"; there are"));
}

TEST(Families, granite_4_may_have_experts_beside_its_mlp) {
  const ModelPlan plan = plan_of(R"({"model_type":"granitemoehybrid","num_hidden_layers":1,
      "intermediate_size":512,"shared_intermediate_size":1024})");
  const ExpertsPlan& experts = plan.layers[0].experts;
  EXPECT_EQ(experts.count, 8u);
  EXPECT_EQ(experts.chosen, 2u);
  EXPECT_EQ(experts.width, 512u);
  EXPECT_EQ(experts.shared_width, 1024u);
  EXPECT_TRUE(experts.normalised);
  EXPECT_FALSE(plan_of(R"({"model_type":"granitemoehybrid","num_hidden_layers":1,
      "num_local_experts":0})")
                   .layers[0]
                   .experts);
}

TEST(Families, granite_of_experts_has_a_shared_one_by_its_name_alone) {
  const auto experts = [](const std::string& keys) {
    return plan_of(R"({"num_hidden_layers":1,)" + keys + "}").layers[0].experts;
  };
  EXPECT_EQ(experts(R"("model_type":"granitemoe","intermediate_size":512)").width, 512u);
  EXPECT_EQ(experts(R"("model_type":"granitemoe")").shared_width, 0u);
  EXPECT_EQ(experts(R"("model_type":"granitemoeshared")").shared_width, 0u);
  EXPECT_EQ(
      experts(R"("model_type":"granitemoeshared","shared_intermediate_size":64)").shared_width,
      64u);
  EXPECT_THAT(refusal(R"({"model_type":"granitemoe","num_local_experts":0})"),
              HasSubstr("'num_local_experts' is 0"));
}

TEST(Families, slopes_of_alibi_are_powers_that_end_at_the_same_one) {
  EXPECT_THAT(alibi_slopes(4, 8.0f), ElementsAre(0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f));
  EXPECT_THAT(alibi_slopes(3, 8.0f), ElementsAre(0x1p-4f, 0x1p-8f, 0x1p-2f));
  EXPECT_THAT(alibi_slopes(1, 8.0f), ElementsAre(0x1p-8f));
}

TEST(Families, mpt_has_position_biases_whatever_its_config_says) {
  const ModelPlan plan = plan_of(R"({"model_type":"mpt","d_model":36,"n_heads":4,"n_layers":2,
      "attn_config":{"alibi":false,"alibi_bias_max":16,"clip_qkv":6,"softmax_scale":0.5}})");
  const SelfAttentionPlan& attention = plan.layers.at(1).attention;
  EXPECT_EQ(attention.alibi_max_bias, 8.0f);
  EXPECT_EQ(attention.clip, 6.0f);
  EXPECT_EQ(attention.scale, 0.5f);
  EXPECT_EQ(attention.head_dim, 9u);
  EXPECT_EQ(plan.layers[1].mlp.width, 144u);
  const ModelShapeStorage shape(plan, 64);
  ASSERT_NE(shape.shape().layers[1].alibi_slopes, nullptr);
  EXPECT_EQ(shape.shape().layers[1].alibi_slopes[3], 0x1p-8f);
}

TEST(Families, falcon_shares_kv_heads_as_its_architecture_has_it) {
  const char* sizes = R"({"model_type":"falcon","hidden_size":48,"num_attention_heads":6,)";
  const auto kv_heads = [&](const std::string& more) {
    return plan_of(sizes + more + "}").layers.at(0).attention.kv_heads;
  };
  EXPECT_EQ(kv_heads(R"("num_kv_heads":3)"), 1u);
  EXPECT_EQ(kv_heads(R"("num_kv_heads":3,"multi_query":false)"), 6u);
  EXPECT_EQ(kv_heads(R"("num_kv_heads":3,"new_decoder_architecture":true)"), 3u);
}

TEST(Families, what_the_reference_of_falcon_or_bloom_cannot_run_is_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"falcon","alibi":true})"),
              HasSubstr("'alibi' is true; the reference rounds"));
  EXPECT_THAT(refusal(R"({"model_type":"falcon","num_ln_in_parallel_attn":2})"),
              HasSubstr("'num_ln_in_parallel_attn' is 2 without 'new_decoder_architecture'"));
  EXPECT_THAT(refusal(R"({"model_type":"falcon","new_decoder_architecture":true,
                          "parallel_attn":false})"),
              HasSubstr("'parallel_attn' is false with 'new_decoder_architecture'"));
  EXPECT_THAT(refusal(R"({"model_type":"bloom","apply_residual_connection_post_layernorm":true})"),
              HasSubstr("'apply_residual_connection_post_layernorm' is true"));
  EXPECT_THAT(refusal(R"({"model_type":"bloom","n_head":100000,"hidden_size":100000})"),
              HasSubstr("'n_head' is 100000; with ALiBi there are at most 65536"));
}

TEST(Families, norms_without_weights_have_no_tensors) {
  const ModelPlan plan = plan_of(R"({"model_type":"olmo","num_hidden_layers":1})");
  EXPECT_EQ(plan.final_norm.kind, NormKind::layer);
  for (const TensorSpec& spec : list_tensors(plan)) {
    EXPECT_EQ(norm_of(plan, spec), nullptr) << spec.name;
  }
}

TEST(Families, keys_of_another_family_that_change_the_arithmetic_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"olmo2","logit_scale":0.5})"),
              HasSubstr("'logit_scale' is 0.5; scaled logits is not built"));
  EXPECT_THAT(refusal(R"({"model_type":"phi3","use_parallel_residual":true})"),
              HasSubstr("parallel residuals"));
}

TEST(Families, keys_that_nobody_knows_are_listed) {
  const ModelPlan plan = plan_of(R"({"model_type":"llama","my_key":1,"use_cache":true})");
  EXPECT_THAT(plan.ignored_keys, Contains("my_key"));
  EXPECT_THAT(plan.ignored_keys, testing::Not(Contains("use_cache")));
}

TEST(Families, factors_and_caps_out_of_range_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"granite","residual_multiplier":0})"),
              HasSubstr("'residual_multiplier' is 0; expected a number from 1e-6"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma2","final_logit_softcapping":-1})"),
              HasSubstr("'final_logit_softcapping' is -1; expected a number above 0, or null"));
  // transformers divides by it.
  for (const std::string family : {"gemma2", "vaultgemma", "gemma3n_text", "nanochat"}) {
    const std::string model = R"({"model_type":")" + family;
    EXPECT_THAT(refusal(model + R"(","final_logit_softcapping":0})"),
                HasSubstr("'final_logit_softcapping' is 0; expected a number "));
    EXPECT_EQ(plan_of(model + R"(","final_logit_softcapping":null})").logit_soft_cap, 0.0f);
  }
  EXPECT_THAT(refusal(R"({"model_type":"stablelm","partial_rotary_factor":1.5})"),
              HasSubstr("expected an even number of elements of a head"));
  EXPECT_THAT(refusal(R"({"model_type":"smollm3","no_rope_layers":[1,2]})"),
              HasSubstr("'no_rope_layers' is a list of 2; expected a list of 36 times 0 or 1"));
}

TEST(Families, an_odd_number_of_elements_turns_as_one_more_does) {
  // Half of 10 elements are 5: 6 turn, by frequencies that are spread over 5, but in families whose
  // reference fails then.
  const ModelPlan odd = plan_of(R"({"model_type":"glm4","head_dim":10,"rope_parameters":
      {"rope_theta":1000.0,"rope_type":"linear","factor":2.0,"partial_rotary_factor":0.5}})");
  EXPECT_EQ(odd.ropes[0].dim, 6u);
  EXPECT_EQ(odd.ropes[0].theta, std::pow(1000.0, 6.0 / 5.0));
  EXPECT_THAT(
      refusal(R"({"model_type":"glm4","head_dim":10,"rope_parameters":
      {"rope_theta":1000.0,"rope_type":"yarn","factor":2.0,"partial_rotary_factor":0.5}})"),
      HasSubstr("an odd number of elements of a head, 5, would turn, with rope type 'yarn'"));
  EXPECT_THAT(refusal(R"({"model_type":"stablelm","hidden_size":320,"partial_rotary_factor":0.5})"),
              HasSubstr("0.500000 of heads of 10 elements would turn; expected an even number"));
}

const std::string kDeepseek = R"({"model_type":"deepseek_v2","num_hidden_layers":2,"hidden_size":48,
    "num_attention_heads":3,"first_k_dense_replace":2,)";

TEST(Families, deepseek_keeps_one_latent_row_for_all_heads) {
  const ModelPlan plan = plan_of(kDeepseek + R"("kv_lora_rank":20,"qk_rope_head_dim":8,
      "qk_nope_head_dim":12,"v_head_dim":10,"q_lora_rank":null,"head_dim":5})");
  const LayerPlan& layer = plan.layers[1];
  EXPECT_EQ(layer.latent.row_dim(), 28u);
  EXPECT_EQ(layer.latent.norm.eps, 1e-6f);
  EXPECT_EQ(plan.ropes[0].dim, 8u);
  EXPECT_TRUE(plan.ropes[0].pairs);
  const ModelShapeStorage storage(plan, 64);
  const ModelShape& shape = storage.shape();
  ASSERT_EQ(shape.group_count, 1u);
  EXPECT_EQ(shape.groups[0].kind, KvKind::latent);
  EXPECT_EQ(shape.groups[0].layers, 2u);
  EXPECT_EQ(shape.groups[0].kv_heads, 1u);
  EXPECT_EQ(shape.groups[0].k_dim, 28u);
  EXPECT_EQ(shape.groups[0].v_dim, 20u);
  EXPECT_EQ(shape.layers[1].query_heads, 3u);
}

TEST(Families, yarn_raises_the_scale_of_deepseek_where_it_says_by_how_much) {
  const auto scale = [](const std::string& rope) {
    return plan_of(kDeepseek + "\"rope_scaling\":" + rope + "}").layers[0].attention.scale;
  };
  const double plain = 1.0 / std::sqrt(192.0);
  EXPECT_FLOAT_EQ(scale("null"), static_cast<float>(plain));
  const std::string yarn = R"({"type":"yarn","factor":40,"original_max_position_embeddings":64)";
  EXPECT_FLOAT_EQ(scale(yarn + "}"), static_cast<float>(plain));
  const double raised = 0.1 * 0.707 * std::log(40.0) + 1.0;
  EXPECT_FLOAT_EQ(scale(yarn + R"(,"mscale_all_dim":0.707})"),
                  static_cast<float>(plain * raised * raised));
}

TEST(Families, deepseek_has_experts_behind_its_dense_layers) {
  const ModelPlan plan = plan_of(R"({"model_type":"deepseek_v3","num_hidden_layers":5})");
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(bool{plan.layers[i].experts}, i >= 3) << i;
  ExpertsPlan expected;
  expected.count = 256;
  expected.chosen = 8;
  expected.width = expected.shared_width = 2048;
  expected.scoring = ExpertScoring::sigmoid;
  expected.correction = expected.normalised = true;
  expected.scale = 2.5f;
  expected.groups = 8;
  expected.groups_chosen = 4;
  expected.group_score = GroupScore::best_two;
  EXPECT_EQ(plan.layers[4].experts, expected);
}

TEST(Families, deepseek_v2_chooses_among_groups_only_where_its_method_says_so) {
  const auto experts = [](const std::string& more) {
    return plan_of(R"({"model_type":"deepseek_v2","num_hidden_layers":1,"num_experts_per_tok":6,
        "n_group":8,"topk_group":3,)" +
                   more + R"("routed_scaling_factor":16,"norm_topk_prob":true})")
        .layers[0]
        .experts;
  };
  const ExpertsPlan greedy = experts("");
  EXPECT_EQ(greedy.groups, 1u);
  EXPECT_EQ(greedy.scale, 16.0f);
  EXPECT_EQ(greedy.shared_width, 2u * 1407u);
  EXPECT_FALSE(greedy.normalised || greedy.correction);
  const ExpertsPlan grouped = experts(R"("topk_method":"group_limited_greedy",)");
  EXPECT_EQ(grouped.groups, 8u);
  EXPECT_EQ(grouped.groups_chosen, 3u);
  EXPECT_EQ(grouped.group_score, GroupScore::best);
}

TEST(Families, experts_that_deepseek_cannot_have_are_refused) {
  const std::string v2 = R"({"model_type":"deepseek_v2","num_hidden_layers":1,)";
  const std::string v3 = R"({"model_type":"deepseek_v3","num_hidden_layers":4,)";
  EXPECT_THAT(refusal(v2 + R"("first_k_dense_replace":0})"),
              HasSubstr("'num_experts_per_tok' is missing"));
  EXPECT_THAT(refusal(v2 + R"("num_experts_per_tok":2,"topk_method":"noaux_tc"})"),
              HasSubstr("'topk_method' is 'noaux_tc'; expected \"greedy\""));
  EXPECT_THAT(refusal(v2 + R"("num_experts_per_tok":2,"topk_method":"group_limited_greedy"})"),
              HasSubstr("but 'n_group' is missing"));
  EXPECT_THAT(refusal(v2 + R"("num_experts_per_tok":2,"mlp_bias":true})"),
              HasSubstr("experts with biases are not built here"));
  EXPECT_THAT(refusal(v3 + R"("scoring_func":"softmax"})"),
              HasSubstr("'scoring_func' is 'softmax'; this family runs with 'sigmoid' alone"));
  EXPECT_THAT(refusal(v3 + R"("n_group":7})"), HasSubstr("256 experts do not make 7 equal groups"));
  EXPECT_THAT(refusal(v3 + R"("n_group":256,"topk_group":8})"),
              HasSubstr("groups of one expert have no two best ones"));
}

TEST(Families, what_deepseek_cannot_be_is_refused) {
  EXPECT_THAT(refusal(kDeepseek + R"("num_key_value_heads":1})"),
              HasSubstr("'num_key_value_heads' is 1; latent attention has K and V for each of its "
                        "3 heads"));
  EXPECT_EQ(refusal(kDeepseek + R"("num_key_value_heads":2})"), "none");
  EXPECT_THAT(refusal(kDeepseek + R"("qk_rope_head_dim":7})"),
              HasSubstr("'qk_rope_head_dim' is 7; expected an even number"));
  EXPECT_THAT(refusal(kDeepseek + R"("kv_lora_rank":2000000000})"),
              HasSubstr("latent rows of 2000000000 + 64 elements are too wide"));
  EXPECT_THAT(refusal(kDeepseek + R"("kv_lora_rank":0})"),
              HasSubstr("'kv_lora_rank' is 0; expected an integer from 1"));
}

TEST(Families, layers_that_read_the_k_and_v_of_another_have_none_and_no_memory_for_them) {
  const ModelPlan plan = plan_of(R"({"model_type":"llama","num_hidden_layers":5,"hidden_size":32,
      "num_attention_heads":4,"use_cla":true,"cla_share_factor":2})");
  std::vector<int32_t> owners;
  for (const LayerPlan& layer : plan.layers) owners.push_back(layer.attention.kv_from_layer);
  EXPECT_THAT(owners, ElementsAre(-1, 0, -1, 2, -1));
  const ModelShapeStorage storage(plan, 64);
  EXPECT_EQ(storage.shape().groups[0].layers, 3u);
  EXPECT_EQ(storage.shape().layers[3].shares_kv_with, 2);
  EXPECT_EQ(storage.shape().layers[3].index_in_group, 1u);
  EXPECT_EQ(storage.shape().layers[4].index_in_group, 2u);
  for (const TensorSpec& spec : list_tensors(plan)) {
    const bool of_kv = spec.role == Role::k || spec.role == Role::v;
    EXPECT_TRUE(!of_kv || spec.layer % 2 == 0) << spec.name;
  }
  EXPECT_THAT(refusal(R"({"model_type":"qwen2","use_cla":true})"),
              HasSubstr("K/V shared between layers is not built"));
}

const std::string kSmallLlada = R"({"model_type":"llada","d_model":48,"n_heads":4,"n_layers":2,
    "vocab_size":99,"mask_token_id":98,"eos_token_id":2,)";

TEST(Families, llada_sees_the_whole_text_and_has_a_mask) {
  const ModelPlan usual = plan_of(R"({"architectures":["LLaDAModelLM"]})");
  EXPECT_EQ(usual.architecture, "llada");
  EXPECT_EQ(usual.mask_token, 126336);
  EXPECT_THAT(usual.eos, ElementsAre(126081));
  const ModelPlan plan = plan_of(kSmallLlada + R"("embedding_size":104,"mlp_hidden_size":null,
      "mlp_ratio":2,"weight_tying":false,"scale_logits":true})");
  EXPECT_EQ(plan.mask_token, 98);
  EXPECT_EQ(plan.vocabulary, 104u);
  EXPECT_EQ(plan.layers[1].mlp.width, 96u);
  EXPECT_EQ(plan.layers[1].attention.kv_heads, 4u);
  EXPECT_FLOAT_EQ(plan.logit_scale, 0.14433757f);
  EXPECT_FALSE(plan.tied_embeddings);
  EXPECT_EQ(plan_of(R"({"model_type":"llama"})").mask_token, std::nullopt);
}

TEST(Families, llada_has_one_kv_head_where_it_shares_queries) {
  const ModelPlan plan = plan_of(kSmallLlada + R"("multi_query_attention":true})");
  EXPECT_EQ(plan.layers[0].attention.kv_heads, 1u);
  EXPECT_THAT(refusal(kSmallLlada + R"("multi_query_attention":true,"n_kv_heads":2})"),
              HasSubstr("'n_kv_heads' is 2, but 'multi_query_attention' makes it 1"));
}

TEST(Families, what_llada_cannot_be_is_refused) {
  const auto with = [](const std::string& more) { return refusal(kSmallLlada + more + "}"); };
  EXPECT_THAT(with(R"("block_type":"sequential")"),
              HasSubstr("'block_type' is 'sequential', which is not built; there is 'llama'"));
  EXPECT_THAT(with(R"("rope":false)"), HasSubstr("'rope' is false; models of this family have"));
  EXPECT_THAT(with(R"("alibi":true)"), HasSubstr("'alibi' is true; position biases"));
  EXPECT_THAT(with(R"("activation_type":"swiglu")"), HasSubstr("'activation_type' is 'swiglu'"));
  EXPECT_THAT(with(R"("layer_norm_type":"amd_compatible")"),
              HasSubstr("'layer_norm_type' is 'amd_compatible', which is not built"));
  EXPECT_THAT(with(R"("include_bias":true)"), HasSubstr("RMS norms with biases are not built"));
  EXPECT_THAT(with(R"("block_group_size":2)"), HasSubstr("'block_group_size' is above 1"));
  EXPECT_THAT(with(R"("embedding_size":98)"),
              HasSubstr("'embedding_size' is 98, less than 'vocab_size', 99"));
  EXPECT_THAT(refusal(R"({"model_type":"llada","vocab_size":99,"eos_token_id":2})"),
              HasSubstr("'mask_token_id' is missing; expected the id of the token"));
  EXPECT_THAT(refusal(R"({"model_type":"llada","mask_token_id":[1,2]})"),
              HasSubstr("'mask_token_id' is a list"));
}

}  // namespace
}  // namespace tenon
