// Llama 4, Step 3.7, MiniMax-01 and LongCat: what they make of a config.json, of a GGUF file and of
// decays in a folder, and what they refuse. That their arithmetic is right is the goldens' to show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/families/router_file.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<bool> chunked(const ModelPlan& plan) {
  std::vector<bool> layers;
  for (const LayerPlan& layer : plan.layers) layers.push_back(layer.attention.window_chunks);
  return layers;
}

std::vector<uint32_t> heads(const ModelPlan& plan) {
  std::vector<uint32_t> heads;
  for (const LayerPlan& layer : plan.layers) heads.push_back(layer.attention.heads);
  return heads;
}

TEST(ChunkFamilies, every_fourth_layer_of_llama4_sees_all_and_its_q_grows) {
  const ModelPlan plan = plan_with("llama4_text", R"("num_hidden_layers":5)");
  EXPECT_THAT(chunked(plan), ElementsAre(true, true, true, false, true));
  EXPECT_THAT(windows(plan), ElementsAre(8192, 8192, 8192, 0, 8192));
  EXPECT_THAT(ropes(plan), ElementsAre(0, 0, 0, -1, 0));
  EXPECT_TRUE(plan.ropes.at(0).pairs);
  const SelfAttentionPlan& turns = plan.layers[0].attention;
  EXPECT_TRUE(turns.qk_norm && turns.qk_norm_after_rope && !turns.qk_norm.weight);
  EXPECT_FALSE(turns.q_growth);
  const SelfAttentionPlan& stays = plan.layers[3].attention;
  EXPECT_FALSE(stays.qk_norm);
  EXPECT_EQ(stays.q_growth.at(8190), 1.0f);
  EXPECT_EQ(stays.q_growth.at(8191), static_cast<float>(1.0 + double{0.1f} * std::log1p(1.0)));
  EXPECT_TRUE(plan.layers[0].experts.factors_first);
  EXPECT_EQ(plan.layers[0].experts.shared_width, plan.layers[0].experts.width);
}

TEST(ChunkFamilies, llama4_s_chunks_positions_and_experts_are_lists_of_their_own) {
  const ModelPlan plan = plan_with("llama4_text", R"("num_hidden_layers":4,"no_rope_layers":
      [0,1,1,1],"layer_types":["chunked_attention","full_attention","chunked_attention",
      "full_attention"],"attention_chunk_size":16,"moe_layers":[1,3],"use_qk_norm":false,
      "attn_temperature_tuning":false)");
  EXPECT_THAT(windows(plan), ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(ropes(plan), ElementsAre(-1, 0, 0, 0));
  EXPECT_THAT(sparse(plan), ElementsAre(false, true, false, true));
  EXPECT_FALSE(plan.layers[0].attention.q_growth || plan.layers[1].attention.qk_norm);
  EXPECT_THAT(chunked(plan_with("llama4_text", R"("num_hidden_layers":2,
                  "attention_chunk_size":null)")),
              ElementsAre(false, false));
  EXPECT_THAT(sparse(plan_with("llama4_text", R"("num_hidden_layers":4,
                  "interleave_moe_layer_step":2)")),
              ElementsAre(false, true, false, true));
}

TEST(ChunkFamilies, llama4_refuses_lists_that_are_none_of_its_own) {
  const std::string two = R"("num_hidden_layers":2,)";
  EXPECT_THAT(refusal_with("llama4_text", two + R"("layer_types":["sliding_attention",
                  "full_attention"])"),
              HasSubstr("expected a list of 2, each \"chunked_attention\" or \"full_attention\""));
  EXPECT_THAT(refusal_with("llama4_text", two + R"("attention_chunk_size":null,
                  "layer_types":["chunked_attention","full_attention"])"),
              HasSubstr("'attention_chunk_size' is null; by 'layer_types' some layers"));
  EXPECT_THAT(refusal_with("llama4_text", two + R"("attention_chunk_size":0)"),
              HasSubstr("'attention_chunk_size'"));
  EXPECT_THAT(refusal_with("llama4_text", two + R"("no_rope_layers":[1])"),
              HasSubstr("'no_rope_layers'"));
  EXPECT_THAT(refusal_with("llama4_text", two + R"("moe_layers":[-1])"),
              HasSubstr("'moe_layers' is"));
}

TEST(ChunkFamilies, step_has_heads_and_limits_by_layer_as_published_or_saved) {
  const std::string common = R"("num_hidden_layers":4,"num_attention_heads":16,
      "layer_types":["full_attention","sliding_attention","sliding_attention","full_attention",
                     "sliding_attention"],"num_nextn_predict_layers":1,"sliding_window":9,
      "num_attention_groups":8,"moe_layers_enum":"2,3",
      "swiglu_limits":[0,1.5,2.5,null,0],"swiglu_limits_shared":[0.5,0,0.25,0,0],)";
  const ModelPlan plan = plan_with("step3p5", common + R"("rope_theta":[5.0,7.0,7.0,5.0,7.0],
      "partial_rotary_factors":[0.5,1.0,1.0,0.5,1.0],"attention_other_setting":
      {"attention_type":"sliding_attention","num_attention_heads":24,"num_attention_groups":8})");
  EXPECT_THAT(heads(plan), ElementsAre(16, 24, 24, 16));
  EXPECT_THAT(windows(plan), ElementsAre(0, 9, 9, 0));
  EXPECT_THAT(sparse(plan), ElementsAre(false, false, true, true));
  EXPECT_EQ(plan.layers[0].mlp.limit, 0.5f);
  EXPECT_EQ(plan.layers[1].mlp.limit, 0.0f);
  EXPECT_EQ(plan.layers[2].experts.limit, 2.5f);
  EXPECT_EQ(plan.layers[2].experts.shared_limit, 0.25f);
  EXPECT_EQ(plan.layers[3].experts.limit, 0.0f);
  EXPECT_EQ(plan.ropes.at(0).theta, 5.0);
  EXPECT_EQ(plan.ropes.at(0).dim, 64u);
  EXPECT_EQ(plan.ropes.at(1).theta, 7.0);
  EXPECT_EQ(plan.ropes.at(1).dim, 128u);
  EXPECT_TRUE(plan.final_norm.plus_one);
  const ModelPlan saved = plan_with("step3p5", common + R"("per_layer_config":{
      "2":{"num_attention_heads":32}},"num_sliding_attention_heads":24,"rope_parameters":{
      "full_attention":{"rope_type":"default","rope_theta":3.0},
      "sliding_attention":{"rope_type":"default","rope_theta":4.0}})");
  EXPECT_THAT(heads(saved), ElementsAre(16, 16, 32, 16));
  EXPECT_EQ(saved.ropes.at(1).theta, 4.0);
}

TEST(ChunkFamilies, step_refuses_what_its_reference_overlooks) {
  const auto refused = [](const std::string& keys) {
    return refusal_with("step3p5", R"("num_hidden_layers":2,)" + keys);
  };
  EXPECT_THAT(
      refused(R"("attention_other_setting":{"num_attention_groups":4})"),
      HasSubstr("attention_other_setting.num_attention_groups' is 4; layers with a window"));
  EXPECT_THAT(refused(R"("per_layer_config":{"1":{"head_dim":64}})"),
              HasSubstr("layers have 'num_attention_heads' of their own alone"));
  EXPECT_THAT(refused(R"("per_layer_config":{"7":{}})"), HasSubstr("there are layers 0 to 1"));
  EXPECT_THAT(refused(R"("swiglu_limits":[1.0])"), HasSubstr("expected a list of 2, one a layer"));
  EXPECT_THAT(refused(R"("swiglu_limits":[1.0,-1.0])"), HasSubstr("expected numbers from 0"));
  EXPECT_THAT(refused(R"("rope_parameters":{"rope_type":"default"})"),
              HasSubstr("'rope_parameters' has no settings for each kind of layers"));
  EXPECT_THAT(refused(R"("layer_types":["full_attention","chunked_attention"])"),
              HasSubstr("'layer_types' has \"chunked_attention\""));
  EXPECT_THAT(refused(R"("use_head_wise_attn_gate":false)"),
              HasSubstr("'use_head_wise_attn_gate' is false"));
  EXPECT_THAT(refused(R"("num_sliding_attention_heads":12,"layer_types":["full_attention",
                  "sliding_attention"])"),
              HasSubstr("layer 1 has 12 heads of 128 on 8 KV heads"));
  EXPECT_THAT(refused(R"("layer_types":["full_attention","sliding_attention"])"),
              HasSubstr("'sliding_window' is missing; some layers have a window"));
  EXPECT_THAT(refused(R"("moe_layers_enum":"1,x")"), HasSubstr("'moe_layers_enum' is"));
}

TEST(ChunkFamilies, minimax_adds_halves_to_what_norms_make) {
  const ModelPlan plan = plan_with("minimax", R"("num_hidden_layers":2,"rms_norm_eps":0.25,
      "full_attn_alpha_factor":3.0,"full_attn_beta_factor":0.5,"linear_attn_alpha_factor":4.0,
      "linear_attn_beta_factor":0.25,"mlp_alpha_factor":5.0,"mlp_beta_factor":0.75)");
  EXPECT_EQ(plan.layers[0].mixer_keeps, 3.0f);
  EXPECT_EQ(plan.layers[0].attention_scale(), 0.5f);
  EXPECT_EQ(plan.layers[1].mixer_keeps, 4.0f);
  EXPECT_EQ(plan.layers[1].recurrent_scale(), 0.25f);
  EXPECT_EQ(plan.layers[1].mlp_keeps, 5.0f);
  EXPECT_EQ(plan.layers[1].experts.scale, 0.75f);
  EXPECT_EQ(plan.layers[1].recurrent.gate_norm.eps, 1e-6f);
  EXPECT_EQ(plan.layers[1].recurrent.state_bytes(), 4u * 4096 * 128);
  EXPECT_THAT(refusal_with("minimax", R"("hidden_act":"gelu")"),
              HasSubstr("'hidden_act' is not \"silu\""));
}

// As llama.cpp's converter writes them, with a layer for drafts behind.
TEST(ChunkFamilies, a_gguf_file_of_step_says_heads_limits_and_half_a_rotation_by_layer) {
  const auto file_with = [](bool normed, const std::vector<int32_t>& kv) {
    RouterFile file("step35", true, false);
    file.count("block_count", 3);
    file.count("nextn_predict_layers", 1);
    file.integers("attention.head_count", {2, 3, 2});
    file.integers("attention.head_count_kv", kv);
    file.count("attention.key_length", 4);
    file.count("attention.value_length", 4);
    file.count("attention.sliding_window", 16);
    file.flags("attention.sliding_window_pattern", {false, true, false});
    file.count("expert_shared_feed_forward_length", 5);
    file.count("expert_gating_func", 2);
    file.flag("expert_weights_norm", normed);
    file.real("expert_weights_scale", 3.0f);
    file.real("rope.freq_base", 500.0f);
    file.real("rope.freq_base_swa", 100.0f);
    file.reals("swiglu_clamp_exp", {0.0f, 7.0f, 0.0f});
    file.reals("swiglu_clamp_shexp", {0.5f, 16.0f, 0.0f});
    file.layer(0, "ffn_norm", false);
    file.layer(1, "ffn_norm", true, true, {.count = 3});
    file.layer(2, "ffn_norm", false);
    file.add("blk.0.attn_gate.weight", {2, 8});
    file.add("blk.1.attn_gate.weight", {3, 8});
    for (const char* norm : {"0.attn_q_norm", "0.attn_k_norm", "1.attn_q_norm", "1.attn_k_norm"}) {
      file.add("blk." + std::string(norm) + ".weight", {4});
    }
    file.add("output.weight", {5, 8});
    return file.open();
  };
  const auto model = file_with(true, {1, 1, 1});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "step3p5");
  ASSERT_EQ(plan.layers.size(), 2u);
  EXPECT_EQ(plan.layers[0].attention.heads, 2u);
  EXPECT_EQ(plan.layers[1].attention.heads, 3u);
  EXPECT_THAT(windows(plan), ElementsAre(0, 16));
  EXPECT_THAT(sparse(plan), ElementsAre(false, true));
  EXPECT_EQ(plan.ropes.at(0).dim, 2u);
  EXPECT_EQ(plan.ropes.at(0).theta, 500.0);
  EXPECT_EQ(plan.ropes.at(1).dim, 4u);
  EXPECT_EQ(plan.ropes.at(1).theta, 100.0);
  EXPECT_EQ(plan.layers[0].mlp.limit, 0.5f);
  EXPECT_EQ(plan.layers[1].experts.limit, 7.0f);
  EXPECT_EQ(plan.layers[1].experts.shared_limit, 16.0f);
  EXPECT_EQ(plan.layers[1].experts.scale, 3.0f);
  EXPECT_THAT(std::string(file_with(false, {1, 1, 1}).status().message()),
              HasSubstr("'step35.expert_weights_norm' is false"));
  EXPECT_THAT(std::string(file_with(true, {1, 3, 1}).status().message()),
              HasSubstr("one number of KV heads in all layers"));
}

TEST(ChunkFamilies, a_layer_of_longcat_is_two) {
  const ModelPlan plan = plan_with("longcat_flash", R"("num_layers":2,"hidden_size":64,
      "q_lora_rank":16,"kv_lora_rank":4,"n_routed_experts":6,"zero_expert_num":3,"moe_topk":8)");
  ASSERT_EQ(plan.layers.size(), 4u);
  EXPECT_THAT(sparse(plan), ElementsAre(true, false, true, false));
  EXPECT_TRUE(plan.layers[0].has_dense_mlp() && plan.layers[0].experts.aside);
  EXPECT_FALSE(plan.layers[0].joins_aside);
  EXPECT_EQ(plan.ropes[0].theta, 1e7);
  EXPECT_TRUE(plan.layers[1].joins_aside && plan.layers[1].has_dense_mlp());
  EXPECT_EQ(plan.layers[0].experts.routed(), 9u);
  EXPECT_EQ(plan.layers[3].latent.kv_scale, 4.0f);
  EXPECT_EQ(plan.layers[3].attention.scale, static_cast<float>(1.0 / std::sqrt(192.0)) * 2.0f);
  const TensorNames names(plan);
  EXPECT_EQ(names.full(Role::q_b, 3, false), "model.layers.1.self_attn.1.q_b_proj.weight");
  EXPECT_EQ(names.full(Role::router, 2, false), "model.layers.1.mlp.router.classifier.weight");
  EXPECT_THAT(refusal_with("longcat_flash", R"("router_bias":true)"),
              HasSubstr("'router_bias' is true"));
  EXPECT_THAT(refusal_with("longcat_flash", R"("moe_topk":1000)"),
              HasSubstr("'num_experts_per_tok' is 1000"));
  EXPECT_THAT(refusal_with("longcat_flash", R"("mla_scale_q_lora":false)"),
              HasSubstr("'mla_scale_q_lora' is false"));
  EXPECT_THAT(refusal_with("longcat_flash", R"("q_lora_rank":null)"),
              HasSubstr("'q_lora_rank' is null; this family makes q in two steps"));
}

// The golden stores decays; this changes one of them.
TEST(ChunkFamilies, decays_of_minimax_that_follow_from_no_rates_are_refused) {
  const std::string golden = golden_models() + "minimax_stacked/";
  const TemporaryFolder folder;
  std::string bytes = *read_text_file(golden + "model.safetensors", size_t{1} << 20);
  folder.write_file("config.json", *read_text_file(golden + "config.json"));
  folder.write_file("model.safetensors", bytes);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  // By the number of its layer, which is the last of two, and of its head.
  EXPECT_NEAR((*model)->layers[1].ssm_a.at(0), std::exp2(-4.0) * 2e-5, 1e-8);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
  const auto at = header["model.layers.1.self_attn.key_decay"]["data_offsets"][0].get<size_t>();
  constexpr float kOther = 0.5f;
  std::memcpy(&bytes[sizeof(length) + length + at], &kOther, sizeof(kOther));
  folder.write_file("model.safetensors", bytes);
  EXPECT_THAT(std::string(open_model(folder.path()).status().message()),
              HasSubstr("key_decay' does not follow from 'slope_rate'"));
}

}  // namespace
}  // namespace tenon
