// Families with DeepSeek-V3's router, and those that came with them: what they make of a
// config.json and of a GGUF file's metadata. That their arithmetic is right is the goldens' to
// show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/files/mapped_file.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/support/folders.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/families/router_file.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RouterFamilies, glm_turns_half_of_a_head_and_has_dense_layers_first) {
  const ModelPlan plan =
      plan_with("glm4_moe", R"("num_hidden_layers":3,"first_k_dense_replace":2,"head_dim":64)");
  EXPECT_THAT(sparse(plan), ElementsAre(false, false, true));
  EXPECT_EQ(plan.ropes.at(0).dim, 32u);
  EXPECT_FALSE(plan.layers[0].attention.qk_norm);
  const ExpertsPlan& experts = plan.layers[2].experts;
  EXPECT_EQ(experts.scoring, ExpertScoring::sigmoid);
  EXPECT_EQ(experts.group_score, GroupScore::best_two);
  EXPECT_TRUE(experts.correction && experts.normalised);
  EXPECT_EQ(experts.shared_width, 1408u);
  EXPECT_TRUE(
      plan_with("glm4_moe", R"("use_qk_norm":true,"head_dim":64)").layers[0].attention.qk_norm);
}

TEST(RouterFamilies, a_router_of_another_kind_is_refused) {
  EXPECT_THAT(refusal_with("glm4_moe", R"("scoring_func":"softmax","head_dim":64)"),
              HasSubstr("'scoring_func' is 'softmax'; this family runs with 'sigmoid' alone"));
  EXPECT_THAT(refusal_with("minimax_m2", R"("scoring_func":"softmax")"),
              HasSubstr("'scoring_func' is 'softmax'"));
  EXPECT_THAT(refusal_with("mistral4", R"("scoring_func":"sigmoid")"),
              HasSubstr("this family runs with 'softmax' alone"));
  EXPECT_THAT(refusal_with("minimax_m2", R"("use_qk_norm":false)"),
              HasSubstr("'use_qk_norm' is false"));
  EXPECT_THAT(refusal_with("hy_v3", R"("route_norm":false)"), HasSubstr("'route_norm' is false"));
  EXPECT_THAT(refusal_with("ernie4_5_moe", R"("moe_norm_min":0.5)"),
              HasSubstr("'moe_norm_min' is 0.5"));
}

TEST(RouterFamilies, types_of_mlps_outweigh_a_number_of_dense_ones) {
  const std::string types = R"("num_hidden_layers":3,"mlp_layer_types":["dense","dense","sparse"])";
  for (const std::string family : {"glm4_moe_lite", "exaone_moe", "hy_v3"}) {
    SCOPED_TRACE(family);
    EXPECT_THAT(sparse(plan_with(family, types)), ElementsAre(false, false, true));
    EXPECT_THAT(sparse(plan_with(family, R"("num_hidden_layers":3)")),
                ElementsAre(false, true, true));
    EXPECT_THAT(sparse(plan_with(family, types + R"(,"first_k_dense_replace":1)")),
                ElementsAre(false, false, true));
    EXPECT_THAT(refusal_with(family, R"("num_hidden_layers":2,"mlp_layer_types":["dense"])"),
                HasSubstr("expected a list of 2, each \"dense\" or \"sparse\""));
  }
}

TEST(RouterFamilies, kimi_k2_is_a_deepseek_v3) {
  const ModelPlan plan = plan_with("kimi_k2", R"("n_group":1,"topk_group":1)");
  EXPECT_EQ(plan.architecture, "deepseek_v3");
  const ModelPlan part =
      plan_with("kimi_k25", R"("architectures":["KimiK25ForConditionalGeneration"],"text_config":
      {"model_type":"kimi_k2","n_group":1,"topk_group":1})");
  EXPECT_EQ(part.architecture, "deepseek_v3");
  EXPECT_EQ(part.text_part_of, "kimi_k25");
}

TEST(RouterFamilies, minimax_turns_as_many_elements_as_its_file_says) {
  EXPECT_EQ(plan_with("minimax_m2", R"("head_dim":80,"rotary_dim":20)").ropes.at(0).dim, 20u);
  EXPECT_EQ(plan_with("minimax_m2", R"("head_dim":80)").ropes.at(0).dim, 80u);
  EXPECT_EQ(plan_with("minimax_m2", R"("head_dim":80)").layers[0].attention.qk_norm_extent,
            QkNormExtent::whole);
}

TEST(RouterFamilies, q_grows_each_time_the_original_context_is_over) {
  const QGrowth growth{.beta = 0.5f, .tokens = 9};
  EXPECT_EQ(growth.at(0), 1.0f);
  EXPECT_EQ(growth.at(8), 1.0f);
  EXPECT_FLOAT_EQ(growth.at(9), static_cast<float>(1.0 + 0.5 * std::log(2.0)));
  EXPECT_EQ(growth.at(17), growth.at(9));
  EXPECT_FLOAT_EQ(growth.at(18), static_cast<float>(1.0 + 0.5 * std::log(3.0)));
}

TEST(RouterFamilies, ministral_reads_the_growth_next_to_the_rotary_settings) {
  const auto growth = [](const std::string& rope) {
    return plan_with("ministral3", "\"rope_parameters\":" + rope).layers[0].attention.q_growth;
  };
  EXPECT_EQ(growth(R"({"rope_type":"default","llama_4_scaling_beta":0.2,
                       "original_max_position_embeddings":64})"),
            (QGrowth{0.2f, 64}));
  EXPECT_EQ(growth(R"({"rope_type":"default"})"), QGrowth{});
  // Without settings, the reference's own.
  const ModelPlan plain = plan_of(R"({"model_type":"ministral3"})");
  EXPECT_EQ(plain.layers[0].attention.q_growth, (QGrowth{0.1f, 16384}));
  EXPECT_EQ(plain.ropes.at(0).scaling.kind, RopeScalingKind::yarn);
  EXPECT_EQ(plain.ropes.at(0).scaling.factor, 16.0);
  EXPECT_THAT(refusal_with("ministral3", R"("rope_parameters":{"llama_4_scaling_beta":0.2})"),
              HasSubstr("original_max_position_embeddings' is missing; 'llama_4_scaling_beta'"));
  // A Mistral without growth does not know the key's neighbour either.
  EXPECT_EQ(plan_of(R"({"model_type":"mistral"})").layers[0].attention.q_growth, QGrowth{});
}

TEST(RouterFamilies, mistral_4_says_twice_how_much_of_a_head_turns) {
  const std::string sizes = R"("qk_nope_head_dim":12,"qk_rope_head_dim":4,"rope_parameters":
      {"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":64,
      "partial_rotary_factor":)";
  EXPECT_EQ(plan_with("mistral4", sizes + "0.25}").ropes.at(0).dim, 4u);
  EXPECT_THAT(refusal_with("mistral4", sizes + "0.5}"),
              HasSubstr("'partial_rotary_factor' lets 8 elements of a head turn; "
                        "'qk_rope_head_dim' is 4"));
}

TEST(RouterFamilies, dots_has_windows_in_upper_layers) {
  const std::string layers = R"("num_hidden_layers":3,"max_window_layers":1)";
  EXPECT_THAT(windows(plan_with("dots1", layers + R"(,"sliding_window":7)")), ElementsAre(0, 7, 7));
  EXPECT_THAT(windows(plan_with("dots1", layers + R"(,"sliding_window":null)")),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(refusal_with("dots1", R"("num_hidden_layers":1,"sliding_window":null,
                                       "layer_types":["sliding_attention"])"),
              HasSubstr("'layer_types' has sliding layers but there is no sliding window"));
  EXPECT_EQ(plan_with("dots1", R"("scoring_func":"noaux_tc")").layers.size(), 62u);
}

TEST(RouterFamilies, ernie_has_experts_at_intervals_between_two_layers) {
  const auto layers = [](const std::string& keys) {
    return sparse(plan_with("ernie4_5_moe", R"("num_hidden_layers":5,)" + keys));
  };
  EXPECT_THAT(layers(R"("moe_layer_start_index":2)"), ElementsAre(false, false, true, true, true));
  EXPECT_THAT(layers(R"("moe_layer_interval":2)"), ElementsAre(false, true, false, true, false));
  EXPECT_THAT(layers(R"("moe_layer_start_index":0,"moe_layer_end_index":1)"),
              ElementsAre(true, true, false, false, false));
  const ModelPlan plan = plan_with("ernie4_5_moe", R"("use_bias":true)");
  EXPECT_TRUE(plan.head_bias && plan.layers[1].experts.shared_bias);
  EXPECT_FALSE(plan.layers[1].experts.bias);
}

TEST(RouterFamilies, exaone_turns_in_layers_with_a_window_alone) {
  const auto plan = [](const std::string& keys) {
    return plan_with("exaone_moe", R"("num_hidden_layers":4,)" + keys);
  };
  EXPECT_THAT(ropes(plan(R"("sliding_window_pattern":"LG")")), ElementsAre(0, -1, 0, -1));
  EXPECT_THAT(windows(plan(R"("sliding_window_pattern":"LG","sliding_window":5)")),
              ElementsAre(5, 0, 5, 0));
  EXPECT_THAT(ropes(plan(R"("sliding_window_pattern":3)")), ElementsAre(0, 0, -1, 0));
  EXPECT_THAT(ropes(plan(R"("sliding_window":null)")), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(refusal_with("exaone_moe", R"("sliding_window_pattern":"LX")"),
              HasSubstr("expected a number, or letters L and G"));
}

TEST(RouterFamilies, whole_heads_turn_where_the_reference_knows_nothing_else) {
  EXPECT_THAT(refusal_with("solar_open", R"("partial_rotary_factor":0.5)"),
              HasSubstr("'partial_rotary_factor' lets 64 of 128 elements of a head turn"));
  EXPECT_THAT(refusal_with("mellum", R"("rope_parameters":{"full_attention":
                  {"rope_type":"default","partial_rotary_factor":0.25}})"),
              HasSubstr("lets 32 of 128"));
}

TEST(RouterFamilies, hunyuan_stretches_its_base_once) {
  const std::string rope = R"("head_dim":6,"rope_scaling":{"type":"dynamic","factor":1.0)";
  const ModelPlan plan = plan_with("hunyuan_v1_moe", rope + R"(,"alpha":4.0})");
  EXPECT_DOUBLE_EQ(plan.ropes.at(0).theta, 80000.0);
  EXPECT_EQ(plan.ropes.at(0).scaling.kind, RopeScalingKind::none);
  EXPECT_TRUE(plan.layers[0].attention.qk_norm_after_rope);
  const ModelPlan without = plan_with("hunyuan_v1_moe", rope + "}");
  EXPECT_EQ(without.ropes.at(0).scaling.kind, RopeScalingKind::dynamic);
}

TEST(RouterFamilies, hunyuan_may_choose_another_number_of_experts_in_each_layer) {
  const std::string keys = R"("num_hidden_layers":2,"num_experts":8,)";
  const ModelPlan plan = plan_with("hunyuan_v1_moe", keys + R"("moe_topk":[2,3])");
  EXPECT_EQ(plan.layers[0].experts.chosen, 2u);
  EXPECT_EQ(plan.layers[1].experts.chosen, 3u);
  EXPECT_THAT(refusal_with("hunyuan_v1_moe", keys + R"("moe_topk":[2])"),
              HasSubstr("'moe_topk' is a list of 1; expected a number, or a list of 2"));
  EXPECT_THAT(refusal_with("hunyuan_v1_moe", keys + R"("moe_intermediate_size":[11008,5])"),
              HasSubstr("'moe_intermediate_size' is 5; in this family it is 11008"));
}

TEST(RouterFamilies, command_a_counts_windows_anew_behind_its_dense_layers) {
  const ModelPlan plan = plan_with("cohere2_moe", R"("num_hidden_layers":5,"sliding_window":9,
      "first_k_dense_replace":1,"sliding_window_pattern":2,"num_shared_experts":2)");
  EXPECT_THAT(windows(plan), ElementsAre(0, 9, 0, 9, 0));
  EXPECT_THAT(ropes(plan), ElementsAre(0, 0, -1, 0, -1));
  EXPECT_THAT(sparse(plan), ElementsAre(false, true, true, true, true));
  EXPECT_EQ(plan.layers[1].experts.shared_scale, 0.5f);
  EXPECT_EQ(plan.layers[1].experts.scoring, ExpertScoring::softmax_of_chosen);
  EXPECT_THAT(refusal_with("cohere2_moe", R"("expert_selection_fn":"tanh")"),
              HasSubstr("'expert_selection_fn' is 'tanh'; there are \"softmax\" and"));
}

TEST(RouterFamilies, a_gguf_file_of_command_a_plus_says_how_wide_dense_layers_and_experts_are) {
  RouterFile file("cohere2moe");
  file.count("block_count", 2);
  file.count("leading_dense_block_count", 1);
  file.count("expert_shared_count", 1);
  file.count("expert_shared_feed_forward_length", 5);
  file.count("expert_gating_func", 2);
  file.flag("expert_weights_norm", true);
  file.count("attention.sliding_window", 16);
  file.flags("attention.sliding_window_pattern", {false, true});
  file.real("attention.layer_norm_epsilon", 1e-5f);
  file.real("logit_scale", 0.25f);
  file.layer(0, nullptr, false);
  file.layer(1, nullptr, true, true);
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "cohere2_moe");
  EXPECT_EQ(plan.layers[0].mlp.width, 6u);
  EXPECT_EQ(plan.layers[1].experts.width, 5u);
  EXPECT_EQ(plan.layers[1].experts.shared_width, 5u);
  EXPECT_EQ(plan.layers[1].experts.scoring, ExpertScoring::sigmoid);
  EXPECT_TRUE(plan.layers[1].experts.normalised);
  EXPECT_EQ(plan.layers[1].experts.scale, 0.5f);  // the mean with the shared one
  EXPECT_EQ(plan.layers[0].attention_norm.kind, NormKind::layer);
  EXPECT_THAT(ropes(plan), ElementsAre(0, 0));
  EXPECT_EQ(plan.logit_scale, 0.25f);
}

TEST(RouterFamilies, tensors_of_layers_for_drafts_in_a_folder_are_left_out) {
  for (const std::string name :
       {"glm4_moe/model.layers.3.eh_proj.weight",
        "ernie4_5_moe/model.mtp_block.0.mlp.up_proj.weight", "exaone_moe/mtp.fc.weight"}) {
    SCOPED_TRACE(name);
    const size_t slash = name.find('/');
    const std::string golden = golden_models() + name.substr(0, slash);
    const auto model = open_model(golden);
    ASSERT_TRUE(model.ok()) << model.status().message();
    std::map<std::string, StoredTensor> tensors;
    for (const std::string& own : (*model)->checkpoint->names()) {
      const TensorView& view = *(*model)->checkpoint->find(own);
      StoredTensor& tensor = tensors[own];
      tensor.shape.assign(view.shape, view.shape + view.rank);
      tensor.values.assign(element_count(view), 0.5f);
    }
    tensors[name.substr(slash + 1)] = {.shape = {2, 3}, .values = std::vector<float>(6)};
    const TemporaryFolder folder;
    folder.write_file("config.json", *read_text_file(golden + "/config.json"));
    folder.write_file("model.safetensors", safetensors_file(tensors));
    const auto with_drafts = open_model(folder.path());
    EXPECT_TRUE(with_drafts.ok()) << with_drafts.status().message();
  }
}

TEST(RouterFamilies, layers_for_drafts_in_a_gguf_file_are_left_out) {
  RouterFile file("glm4moe");
  file.count("block_count", 3);
  file.count("nextn_predict_layers", 1);
  file.count("leading_dense_block_count", 1);
  file.count("expert_shared_count", 1);
  file.count("rope.dimension_count", 2);
  file.real("expert_weights_scale", 1.5f);
  file.layer(0, "post_attention_norm", false);
  file.layer(1, "post_attention_norm", true, true);
  file.layer(2, "post_attention_norm", true, true);
  file.add("blk.2.nextn.eh_proj.weight", {8, 16});
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "glm4_moe");
  EXPECT_THAT(sparse(plan), ElementsAre(false, true));
  EXPECT_EQ(plan.layers[1].experts.shared_width, 5u);
  EXPECT_EQ(plan.layers[1].experts.scale, 1.5f);
  EXPECT_EQ(plan.ropes.at(0).dim, 2u);
}

TEST(RouterFamilies, a_gguf_file_of_hy3_says_how_wide_its_shared_experts_are) {
  RouterFile file("hy_v3");
  file.count("block_count", 2);
  file.count("expert_shared_feed_forward_length", 5);
  file.count("expert_gating_func", 2);
  file.layer(0, "ffn_norm", false);
  file.layer(1, "ffn_norm", true, true);
  for (const char* norm :
       {"blk.0.attn_q_norm", "blk.0.attn_k_norm", "blk.1.attn_q_norm", "blk.1.attn_k_norm"}) {
    file.add(std::string(norm) + ".weight", {4});
  }
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(sparse((*model)->plan), ElementsAre(false, true));
  EXPECT_EQ((*model)->plan.layers[1].experts.shared_width, 5u);
}

TEST(RouterFamilies, another_gating_in_a_gguf_file_is_refused) {
  RouterFile file("dots1");
  file.count("block_count", 1);
  file.count("expert_gating_func", 1);
  file.layer(0, "ffn_norm", true);
  EXPECT_THAT(std::string(file.open().status().message()),
              HasSubstr("dots1.expert_gating_func' is 1; this architecture has 2"));
}

TEST(RouterFamilies, a_gguf_file_of_ministral_counts_the_growth_in_the_original_context) {
  RouterFile file("mistral3", false);
  file.count("block_count", 1);
  file.real("attention.temperature_scale", 0.1f);
  file.text("rope.scaling.type", "yarn");
  file.real("rope.scaling.factor", 4.0f);
  file.count("rope.scaling.original_context_length", 16);
  file.real("rope.scaling.yarn_log_multiplier", 1.0f);
  file.layer(0, "ffn_norm", false);
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "ministral3");
  EXPECT_EQ(plan.layers[0].attention.q_growth, (QGrowth{0.1f, 16}));
  EXPECT_EQ(plan.ropes.at(0).scaling.mscale_all_dim, 1.0);
  EXPECT_EQ(plan.ropes.at(0).scaling.attention_factor, 1.0);
}

}  // namespace
}  // namespace tenon
