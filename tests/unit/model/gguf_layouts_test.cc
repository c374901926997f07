// GGUF files as llama.cpp's converter lays them out, where it differs from what their metadata or
// other files of the same format lead one to expect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/checkpoint/gguf_order.h"
#include "core/model/families/families.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/unit/model/families/router_file.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GgufLayouts, a_vector_may_stand_as_a_matrix_of_one_row) {
  for (const std::vector<uint64_t>& extents :
       {std::vector<uint64_t>{3}, std::vector<uint64_t>{1, 3}, std::vector<uint64_t>{1, 1, 3},
        std::vector<uint64_t>{3, 1}, std::vector<uint64_t>{1, 2}}) {
    RouterFile file("ernie4_5-moe");
    file.count("block_count", 2);
    file.count("leading_dense_block_count", 1);
    file.layer(0, "ffn_norm", false);
    file.layer(1, "ffn_norm", true);
    file.reshape("blk.1.exp_probs_b.bias", extents);
    const auto model = file.open();
    // As converters write it for ERNIE 4.5. A column is no row, and two numbers are not three.
    const bool sound = extents.back() == 3;
    EXPECT_EQ(model.ok(), sound) << model.status().message();
    if (!sound) {
      EXPECT_THAT(std::string(model.status().message()), HasSubstr("blk.1.exp_probs_b.bias"));
    }
  }
}

TEST(GgufLayouts, two_tensors_may_come_without_their_kind) {
  for (const bool bare : {false, true}) {
    RouterFile file("dots1");
    file.count("block_count", 1);
    file.count("expert_gating_func", 2);
    file.count("expert_shared_count", 1);
    file.layer(0, "ffn_norm", true, true);
    for (const char* norm : {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}) {
      file.add(norm, {4});
    }
    if (bare) {
      file.rename("blk.0.exp_probs_b.bias", "blk.0.exp_probs_b");
      file.rename("blk.0.ffn_norm.weight", "blk.0.ffn_norm");
    }
    const auto model = file.open();
    EXPECT_TRUE(model.ok()) << model.status().message();
  }
}

// So llama.cpp finds them in files that are written here.
TEST(GgufLayouts, tensors_without_a_kind_are_written_so) {
  EXPECT_EQ(TensorNames(kFalconH1).stored("model.layers.3.pre_ff_layernorm.weight"),
            "blk.3.ffn_norm");
  EXPECT_EQ(TensorNames(kHyV3).stored("model.layers.3.mlp.expert_bias"), "blk.3.exp_probs_b");
  EXPECT_EQ(TensorNames(kBamba).stored("model.layers.3.pre_ff_layernorm.weight"),
            "blk.3.ffn_norm.weight");
}

TEST(GgufLayouts, the_gate_and_up_of_granites_shared_mlp_stand_under_the_name_of_up) {
  EXPECT_EQ(TensorNames(kGraniteMoeSwa).name_of_stored("blk.2.ffn_up_shexp.weight"),
            "model.layers.2.shared_mlp.input_linear.weight");
}

TEST(GgufLayouts, the_text_part_of_models_of_text_and_images_has_names_of_its_own) {
  RouterFile file("qwen2vl", false);
  file.count("block_count", 1);
  file.integers("rope.dimension_sections", {1, 1, 0, 0});
  file.layer(0, "ffn_norm", false);
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->plan.architecture, "qwen2");
  EXPECT_EQ((*model)->plan.ropes.at(0).dim, 4u);
  EXPECT_EQ(find_family_by_architecture("qwen3vl"), &kQwen3);
  EXPECT_EQ(find_family_by_architecture("qwen3vlmoe"), &kQwen3Moe);
}

// What both say of one layer that attends.
RouterFile& with_hybrid_keys(RouterFile& file, bool turns = true) {
  file.count("block_count", 1);
  file.count("attention.head_count", 2);
  file.integers("attention.head_count_kv", {1});
  file.count("ssm.conv_kernel", 4);
  file.count("ssm.inner_size", 16);
  file.count("ssm.state_size", 3);
  file.count("ssm.time_step_rank", 4);
  file.count("ssm.group_count", 1);
  file.flag("rope.scaling.finetuned", turns);
  file.layer(0, "ffn_norm", false);
  return file;
}

TEST(GgufLayouts, a_granite_that_turns_without_granites_factors_is_a_bamba) {
  for (const uint32_t turned : {4u, 2u}) {
    RouterFile bamba("granitehybrid", false, false);
    bamba.count("rope.dimension_count", turned);
    const auto model = with_hybrid_keys(bamba).open();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const ModelPlan& plan = (*model)->plan;
    EXPECT_EQ(plan.architecture, "bamba");
    EXPECT_EQ(plan.ropes.at(0).dim, 2u);
    EXPECT_TRUE(plan.layers[0].attends());
  }
  RouterFile granite("granitehybrid", false, false);
  granite.real("attention.scale", 0.5f);
  const auto model = with_hybrid_keys(granite).open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->plan.architecture, "granitemoehybrid");
  EXPECT_EQ((*model)->plan.ropes.at(0).dim, 4u);
}

// Converters write hidden / heads there, whatever heads have.
TEST(GgufLayouts, how_much_turns_says_nothing_where_nothing_turns) {
  RouterFile file("granitehybrid", false, false);
  file.count("attention.key_length", 4);
  file.count("rope.dimension_count", 6);
  const auto model = with_hybrid_keys(file, false).open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->plan.layers[0].attention.rope, -1);
  RouterFile turning("granitehybrid", false, false);
  turning.count("attention.key_length", 4);
  turning.count("rope.dimension_count", 6);
  turning.real("attention.scale", 0.5f);
  EXPECT_THAT(std::string(with_hybrid_keys(turning).open().status().message()),
              HasSubstr("'granitehybrid.rope.dimension_count' is 6; only whole heads (4)"));
}

TEST(GgufLayouts, mlps_of_nemotron_next_to_experts_are_as_wide_as_their_tensors) {
  RouterFile file("nemotron_h_moe", true, false, false);
  file.count("block_count", 2);
  file.count("attention.head_count", 2);
  file.integers("attention.head_count_kv", {0, 0});
  file.integers("feed_forward_length", {0, 5});
  file.count("expert_shared_feed_forward_length", 7);
  file.count("ssm.conv_kernel", 4);
  file.count("ssm.inner_size", 8);
  file.count("ssm.state_size", 3);
  file.count("ssm.time_step_rank", 2);
  file.count("ssm.group_count", 1);
  file.add("output.weight", {5, 8});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    file.add(std::string(layer) + "attn_norm.weight", {8});
  }
  file.add("blk.0.ffn_up.weight", {9, 8});
  file.add("blk.0.ffn_down.weight", {8, 9});
  file.add("blk.1.ffn_gate_inp.weight", {3, 8});
  file.add("blk.1.exp_probs_b.bias", {3});
  file.add("blk.1.ffn_up_exps.weight", {3, 5, 8});
  file.add("blk.1.ffn_down_exps.weight", {3, 8, 5});
  file.add("blk.1.ffn_up_shexp.weight", {7, 8});
  file.add("blk.1.ffn_down_shexp.weight", {8, 7});
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->plan.layers[0].mlp.width, 9u);
  EXPECT_THAT(sparse((*model)->plan), ElementsAre(false, true));
}

TEST(GgufLayouts, ling_has_its_tensors_under_the_names_of_kimis) {
  const TensorNames names(kBailingHybrid);
  for (const auto& [name, stored] :
       {std::pair("attention.f_proj.weight", "ssm_f_a.weight"),
        {"attention.b_proj.weight", "ssm_beta.weight"},
        {"attention.A_log", "ssm_a"},
        {"attention.dt_bias", "ssm_dt.bias"},
        {"attention.o_norm.weight", "ssm_norm.weight"},
        {"attention.q_conv1d.weight", "ssm_conv1d_q.weight"},
        {"attention.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
        {"mlp.gate.expert_bias", "exp_probs_b.bias"}}) {
    EXPECT_EQ(names.stored("model.layers.1." + std::string(name)), "blk.1." + std::string(stored));
  }
  // One name of folders stands for two of files.
  EXPECT_EQ(names.name_of_stored("blk.1.ssm_g_a.weight"), "model.layers.1.attention.g_proj.weight");
  EXPECT_EQ(names.name_of_stored("blk.1.attn_gate.weight"),
            "model.layers.1.attention.g_proj.weight");
  LayerPlan layer;
  layer.recurrent = {.kind = Recurrence::gated_delta, .gate_norm = {}};
  EXPECT_FALSE(gguf_rates_lack_minus(layer));
  layer.recurrent.strongest_decay = -5.0f;
  EXPECT_TRUE(gguf_rates_lack_minus(layer));
}

}  // namespace
}  // namespace tenon
