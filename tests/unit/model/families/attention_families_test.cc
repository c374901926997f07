// Families whose attention is of a kind of its own in some layers: what they make of a config.json
// and of a GGUF file's metadata. That their arithmetic is right is the goldens' to show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/model.h"
#include "tests/unit/model/families/router_file.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint32_t> heads(const ModelPlan& plan) {
  std::vector<uint32_t> heads;
  for (const LayerPlan& layer : plan.layers) heads.push_back(layer.attention.heads);
  return heads;
}

std::vector<uint32_t> kv_heads(const ModelPlan& plan) {
  std::vector<uint32_t> heads;
  for (const LayerPlan& layer : plan.layers) heads.push_back(layer.attention.kv_heads);
  return heads;
}

TEST(AttentionFamilies, afmoe_turns_in_layers_with_a_window_alone) {
  const ModelPlan plan = plan_with("afmoe", R"("num_hidden_layers":5,"sliding_window":9,
      "num_dense_layers":2,"mup_enabled":true,"hidden_size":64)");
  EXPECT_THAT(windows(plan), ElementsAre(9, 9, 9, 0, 9));
  EXPECT_THAT(ropes(plan), ElementsAre(0, 0, 0, -1, 0));
  EXPECT_THAT(sparse(plan), ElementsAre(false, false, true, true, true));
  EXPECT_EQ(plan.embedding_scale, 8.0f);
  EXPECT_TRUE(plan.layers[0].attention.output_gate && plan.layers[0].attention_post_norm);
  EXPECT_EQ(plan.layers[2].experts.shared_width, 2u * 1408);
  EXPECT_EQ(plan_with("afmoe", R"("hidden_size":64)").embedding_scale, 1.0f);
  EXPECT_THAT(windows(plan_with("afmoe", R"("num_hidden_layers":2,"layer_types":
                  ["full_attention","sliding_attention"])")),
              ElementsAre(0, 1024));
}

TEST(AttentionFamilies, afmoe_refuses_another_router_than_published_files_have) {
  EXPECT_THAT(refusal_with("afmoe", R"("score_func":"softmax")"),
              HasSubstr("'score_func' is 'softmax'; this family runs with 'sigmoid' alone"));
  EXPECT_THAT(refusal_with("afmoe", R"("route_norm":false)"), HasSubstr("'route_norm' is false"));
  EXPECT_THAT(refusal_with("afmoe", R"("n_group":2)"), HasSubstr("'n_group' is 2"));
  EXPECT_THAT(refusal_with("afmoe", R"("sliding_window":null)"),
              HasSubstr("'sliding_window' is null; some layers have a window"));
}

TEST(AttentionFamilies, a_gguf_file_of_afmoe_has_a_window_in_all_but_each_fourth_layer) {
  RouterFile file("afmoe");
  file.count("block_count", 4);
  file.count("attention.sliding_window", 16);
  file.count("leading_dense_block_count", 4);
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    file.layer(i, "ffn_norm", false);
    file.add(layer + "attn_gate.weight", {8, 8});
    for (const char* norm : {"attn_q_norm", "attn_k_norm"}) {
      file.add(layer + norm + ".weight", {4});
    }
    for (const char* norm : {"post_attention_norm", "post_ffw_norm"}) {
      file.add(layer + norm + ".weight", {8});
    }
  }
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(windows((*model)->plan), ElementsAre(16, 16, 16, 0));
  EXPECT_THAT(ropes((*model)->plan), ElementsAre(0, 0, 0, -1));
  EXPECT_EQ((*model)->plan.embedding_scale, static_cast<float>(std::sqrt(8.0)));
}

TEST(AttentionFamilies, laguna_has_heads_by_layer_and_a_rotary_setting_by_kind) {
  const ModelPlan plan = plan_with("laguna", R"("num_hidden_layers":3,"num_key_value_heads":2,
      "num_attention_heads_per_layer":[2,4,6],"sliding_window":9,
      "layer_types":["full_attention","sliding_attention","full_attention"])");
  EXPECT_THAT(heads(plan), ElementsAre(2, 4, 6));
  EXPECT_THAT(windows(plan), ElementsAre(0, 9, 0));
  EXPECT_THAT(ropes(plan), ElementsAre(0, 1, 0));
  EXPECT_THAT(sparse(plan), ElementsAre(false, true, true));
  EXPECT_EQ(plan.ropes.at(0).theta, 500000.0);
  EXPECT_EQ(plan.ropes.at(0).dim, 64u);
  EXPECT_EQ(plan.ropes.at(1).theta, 10000.0);
  EXPECT_EQ(plan.ropes.at(1).dim, 128u);
  EXPECT_THAT(refusal_with("laguna", R"("num_hidden_layers":2,"num_key_value_heads":2,
                  "num_attention_heads_per_layer":[2,3])"),
              HasSubstr("layer 1 3 heads of 128 on 2 KV heads"));
  EXPECT_THAT(refusal_with("laguna", R"("num_attention_heads_per_layer":[2])"),
              HasSubstr("expected a list of 40 whole numbers"));
}

TEST(AttentionFamilies, settings_by_kind_take_two_keys_from_next_to_them) {
  const auto rope = [](const std::string& keys) {
    return plan_with("laguna", R"("num_hidden_layers":1,"head_dim":8,)" + keys).ropes.at(0);
  };
  const std::string plain = R"("rope_parameters":{"full_attention":{"rope_type":"default")";
  EXPECT_EQ(rope(plain + R"(,"rope_theta":7.0}})").dim, 8u);
  const RopePlan beside = rope(plain + R"(}},"rope_theta":9.0,"partial_rotary_factor":0.5)");
  EXPECT_EQ(beside.theta, 9.0);
  EXPECT_EQ(beside.dim, 4u);
  const std::string yarn =
      R"("rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2.0,"rope_theta":9.0,
         "original_max_position_embeddings":16}})";
  EXPECT_EQ(
      rope(yarn + R"(,"original_max_position_embeddings":32)").scaling.original_context_tokens,
      16u);
  EXPECT_THAT(refusal_with("laguna", R"("rope_parameters":{"rope_type":"default"})"),
              HasSubstr("full_attention' is missing; some layers are of that kind"));
}

TEST(AttentionFamilies, laguna_s_gate_is_one_number_a_head_or_one_an_element) {
  const auto by_head = [](const std::string& keys) {
    return plan_with("laguna", R"("num_hidden_layers":1)" + keys).layers[0].attention.gate_by_head;
  };
  EXPECT_TRUE(by_head(""));
  EXPECT_TRUE(by_head(R"(,"gating":"per-head")"));
  EXPECT_TRUE(by_head(R"(,"gating":true,"gating_types":["per-head"])"));
  EXPECT_FALSE(by_head(R"(,"gating":"per-element")"));
  EXPECT_FALSE(by_head(R"(,"gating":false)"));
  EXPECT_THAT(refusal_with("laguna", R"("gating":true,"gating_types":["per-element"])"),
              HasSubstr("'gating' makes it 'per-head' in all layers"));
  EXPECT_THAT(refusal_with("laguna", R"("moe_apply_router_weight_on_input":true)"),
              HasSubstr("this family runs with factors on what experts make alone"));
}

TEST(AttentionFamilies, a_gguf_file_of_laguna_says_heads_and_gates_by_layer) {
  RouterFile file("laguna", true, false);
  file.count("block_count", 2);
  file.integers("attention.head_count", {2, 3});
  file.count("attention.head_count_kv", 1);
  file.count("attention.key_length", 4);
  file.count("attention.value_length", 4);
  file.count("attention.sliding_window", 16);
  file.count("expert_shared_feed_forward_length", 5);
  file.count("rope.dimension_count", 2);
  file.count("rope.dimension_count_swa", 4);
  file.real("rope.freq_base", 500.0f);
  file.real("rope.freq_base_swa", 100.0f);
  file.layer(0, "ffn_norm", false, false);
  file.layer(1, "ffn_norm", true, true, {.count = 3});
  file.add("blk.0.attn_gate.weight", {2, 8});
  file.add("blk.1.attn_gate.weight", {3, 8});
  for (const char* norm : {"0.attn_q_norm", "0.attn_k_norm", "1.attn_q_norm", "1.attn_k_norm"}) {
    file.add("blk." + std::string(norm) + ".weight", {4});
  }
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_THAT(heads(plan), ElementsAre(2, 3));
  EXPECT_THAT(windows(plan), ElementsAre(0, 16));  // the first of every four has none
  EXPECT_TRUE(plan.layers[0].attention.gate_by_head);
  EXPECT_EQ(plan.ropes.at(0).dim, 2u);
  EXPECT_EQ(plan.ropes.at(1).dim, 4u);
  EXPECT_EQ(plan.ropes.at(1).theta, 100.0);
}

TEST(AttentionFamilies, mimo_has_twice_the_kv_heads_and_sinks_in_layers_with_a_window) {
  const ModelPlan plan = plan_with("mimo_v2_flash", R"("num_hidden_layers":6)");
  EXPECT_THAT(windows(plan), ElementsAre(0, 129, 129, 129, 129, 0));
  EXPECT_THAT(kv_heads(plan), ElementsAre(4, 8, 8, 8, 8, 4));
  EXPECT_THAT(ropes(plan), ElementsAre(0, 1, 1, 1, 1, 0));
  EXPECT_FALSE(plan.layers[0].attention.sinks);
  EXPECT_TRUE(plan.layers[1].attention.sinks);
  EXPECT_EQ(plan.layers[0].attention.v_dim(), 128u);
  EXPECT_EQ(plan.layers[0].attention.head_dim, 192u);
  EXPECT_EQ(plan.ropes.at(0).dim, 64u);
  EXPECT_EQ(plan.ropes.at(0).theta, 5e6);
  EXPECT_EQ(plan.ropes.at(1).theta, 1e4);
  EXPECT_EQ(plan.layers[1].experts.shared_width, 0u);
  EXPECT_THAT(
      windows(plan_with("mimo_v2_flash", R"("num_hidden_layers":2,"sliding_window_size":9)")),
      ElementsAre(0, 10));
}

TEST(AttentionFamilies, mimo_turns_whole_heads_where_a_scaled_setting_has_no_part) {
  const auto dims = [](const std::string& full) {
    const ModelPlan plan = plan_with("mimo_v2_flash", R"("num_hidden_layers":2,"rope_parameters":{
        "full_attention":{)" + full + R"(},"sliding_attention":{"rope_type":"default"}})");
    return std::vector<uint32_t>{plan.ropes.at(0).dim, plan.ropes.at(1).dim};
  };
  EXPECT_THAT(dims(R"("rope_type":"default")"), ElementsAre(64, 64));
  EXPECT_THAT(dims(R"("rope_type":"linear","factor":2.0)"), ElementsAre(192, 64));
  EXPECT_THAT(dims(R"("rope_type":"linear","factor":2.0,"partial_rotary_factor":0.5)"),
              ElementsAre(96, 64));
}

TEST(AttentionFamilies, mimo_scales_v_unless_that_is_null) {
  const auto scale = [](const std::string& keys) {
    return plan_with("mimo_v2_flash", R"("num_hidden_layers":1)" + keys)
        .layers[0]
        .attention.v_scale;
  };
  EXPECT_EQ(scale(""), 0.707f);
  EXPECT_EQ(scale(R"(,"attention_value_scale":null)"), 1.0f);
  EXPECT_EQ(scale(R"(,"attention_value_scale":0.5)"), 0.5f);
}

TEST(AttentionFamilies, mimo_s_keys_that_the_reference_overlooks_must_say_what_is_so_anyway) {
  const std::string two = R"("num_hidden_layers":2,)";
  EXPECT_EQ(refusal_with("mimo_v2_flash", two + R"("hybrid_layer_pattern":[0,1],
                "moe_layer_freq":[0,1],"layernorm_epsilon":1e-5,"swa_num_key_value_heads":8,
                "swa_num_attention_heads":64,"swa_head_dim":192,"swa_v_head_dim":128,
                "rope_theta":5000000,"swa_rope_theta":10000,"attention_chunk_size":128,
                "add_full_attention_sink_bias":false,"add_swa_attention_sink_bias":true,
                "partial_rotary_factor":0.334)"),
            "none");
  const std::pair<const char*, const char*> wrong[] = {{"hybrid_layer_pattern", "[1,1]"},
                                                       {"moe_layer_freq", "[1,1]"},
                                                       {"layernorm_epsilon", "1e-6"},
                                                       {"swa_num_key_value_heads", "4"},
                                                       {"swa_num_attention_heads", "32"},
                                                       {"swa_head_dim", "128"},
                                                       {"swa_v_head_dim", "192"},
                                                       {"rope_theta", "10000"},
                                                       {"swa_rope_theta", "20000"},
                                                       {"add_swa_attention_sink_bias", "false"},
                                                       {"add_full_attention_sink_bias", "true"}};
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(refusal_with("mimo_v2_flash", two + "\"" + key + "\":" + value),
                HasSubstr("'" + std::string(key) + "' is "));
  }
  EXPECT_THAT(refusal_with("mimo_v2_flash", R"("num_attention_heads":12,"num_key_value_heads":4)"),
              HasSubstr("twice the KV heads"));
}

TEST(AttentionFamilies, a_gguf_file_of_mimo_says_kv_heads_by_layer_and_how_wide_v_is) {
  const auto file_with = [](const std::vector<int32_t>& kv) {
    RouterFile file("mimo2", true, false);
    file.count("block_count", 3);
    file.count("nextn_predict_layers", 1);
    file.count("attention.head_count", 2);
    file.integers("attention.head_count_kv", kv);
    file.count("attention.key_length", 6);
    file.count("attention.value_length", 4);
    file.real("attention.value_scale", 0.5f);
    file.count("attention.sliding_window", 16);
    file.flags("attention.sliding_window_pattern", {false, true, true});
    file.count("rope.dimension_count", 2);
    file.real("rope.freq_base_swa", 100.0f);
    file.layer(0, "ffn_norm", false, false, {.dim = 6});
    file.layer(1, "ffn_norm", true, false, {.kv = 2, .dim = 6});
    file.layer(2, "ffn_norm", false, false, {.kv = 2, .dim = 6});
    for (const char* sinks : {"blk.1.attn_sinks.weight", "blk.2.attn_sinks.weight"}) {
      file.add(sinks, {2});
    }
    return file.open();
  };
  const auto model = file_with({1, 2, 2});
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_THAT(kv_heads(plan), ElementsAre(1, 2));
  EXPECT_EQ(plan.layers[0].attention.v_dim(), 4u);
  EXPECT_EQ(plan.layers[0].attention.v_scale, 0.5f);
  EXPECT_EQ(plan.ropes.at(1).theta, 100.0);
  EXPECT_EQ(plan.ropes.at(1).dim, 2u);
  EXPECT_THAT(std::string(file_with({1, 1, 1}).status().message()),
              HasSubstr("this family runs with twice as many in layers with a window"));
}

}  // namespace
}  // namespace tenon
