// GGUF files of Gemma 4, with the keys and names of llama.cpp's converter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/tensors/weight_rows.h"
#include "tests/support/models/gguf_draft.h"

namespace tenon {
namespace {

using test::GgufDraft;
using testing::ElementsAre;
using testing::HasSubstr;

// Two layers, the second without a window, with K and V of one matrix and one KV head; experts,
// gate and up in one tensor, next to the MLP; as llama.cpp's converter writes them.
GgufDraft gemma4_draft() {
  GgufDraft draft;
  draft.architecture = "gemma4";
  draft.counts.clear();
  draft.tensors.clear();
  for (const auto& [key, value] :
       std::map<std::string, uint32_t>{{"context_length", 64},
                                       {"embedding_length", 8},
                                       {"block_count", 2},
                                       {"feed_forward_length", 12},
                                       {"attention.head_count", 2},
                                       {"attention.key_length", 8},
                                       {"attention.value_length", 8},
                                       {"attention.key_length_swa", 4},
                                       {"attention.value_length_swa", 4},
                                       {"attention.sliding_window", 6},
                                       {"attention.shared_kv_layers", 0},
                                       {"embedding_length_per_layer_input", 3},
                                       {"rope.dimension_count", 8},
                                       {"rope.dimension_count_swa", 4},
                                       {"expert_count", 2},
                                       {"expert_used_count", 1},
                                       {"expert_feed_forward_length", 5}}) {
    draft.counts["gemma4." + key] = value;
  }
  draft.integers["gemma4.attention.head_count_kv"] = {2, 1};
  draft.flags["gemma4.attention.sliding_window_pattern"] = {true, false};
  draft.reals["gemma4.rope.freq_base"] = 1e6f;
  draft.reals["gemma4.rope.freq_base_swa"] = 500.0f;
  draft.reals["gemma4.final_logit_softcapping"] = 30.0f;
  draft.add("token_embd.weight", {16, 8});
  draft.add("output_norm.weight", {8});
  draft.add("per_layer_token_embd.weight", {16, 6});
  draft.add("per_layer_model_proj.weight", {6, 8});
  draft.add("per_layer_proj_norm.weight", {3});
  for (const uint64_t layer : {0, 1}) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const uint64_t dim = layer == 0 ? 4 : 8;
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm",
                             "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2", "post_norm"}) {
      draft.add(blk + norm + ".weight", {8});
    }
    draft.add(blk + "attn_q.weight", {2 * dim, 8});
    draft.add(blk + "attn_k.weight", {8, 8});
    if (layer == 0) draft.add(blk + "attn_v.weight", {8, 8});
    draft.add(blk + "attn_output.weight", {8, 2 * dim});
    draft.add(blk + "attn_q_norm.weight", {dim});
    draft.add(blk + "attn_k_norm.weight", {dim});
    draft.add(blk + "ffn_gate.weight", {12, 8});
    draft.add(blk + "ffn_up.weight", {12, 8});
    draft.add(blk + "ffn_down.weight", {8, 12});
    draft.add(blk + "ffn_gate_inp.weight", {2, 8});
    draft.add(blk + "ffn_gate_inp.scale", {8});
    draft.add(blk + "ffn_gate_up_exps.weight", {2, 10, 8});
    draft.add(blk + "ffn_down_exps.weight", {2, 8, 5});
    draft.add(blk + "ffn_down_exps.scale", {2});
    draft.add(blk + "inp_gate.weight", {3, 8});
    draft.add(blk + "proj.weight", {8, 3});
    draft.add(blk + "layer_output_scale.weight", {1});
  }
  return draft;
}

TEST(Gemma4File, it_has_heads_by_layer_and_experts_next_to_the_mlp) {
  const auto model = gemma4_draft().open();
  ASSERT_NE(model, nullptr);
  const ModelPlan& plan = model->plan;
  EXPECT_EQ(plan.architecture, "gemma4_text");
  EXPECT_EQ(plan.layers[0].attention.head_dim, 4u);
  EXPECT_EQ(plan.layers[0].attention.kv_heads, 2u);
  EXPECT_EQ(plan.layers[0].attention.window_tokens, 6u);
  EXPECT_EQ(plan.layers[1].attention.head_dim, 8u);
  EXPECT_EQ(plan.layers[1].attention.kv_heads, 1u);
  EXPECT_TRUE(plan.layers[1].attention.k_is_v);
  EXPECT_EQ(plan.ropes[0].theta, 1e6);
  EXPECT_EQ(plan.ropes[0].turning, 0u);
  EXPECT_EQ(plan.ropes[1].theta, 500.0);
  EXPECT_EQ(plan.logit_soft_cap, 30.0f);
  EXPECT_EQ(plan.layers[1].experts.count, 2u);
  EXPECT_TRUE(plan.layers[1].has_dense_mlp());
  EXPECT_EQ(plan.input().width, 3u);
  // Of each expert's ten rows, the second five.
  std::vector<float> row(8);
  read_row(model->layers[0].experts[1].up, 0, row.data());
  EXPECT_EQ(row[0], 15.0f);
  EXPECT_THAT(model->layers[1].expert_scales, ElementsAre(0.0f, 0.0f));
}

TEST(Gemma4File, divisors_that_stop_frequencies_are_how_many_turn) {
  GgufDraft draft = gemma4_draft();
  draft.tensors["rope_freqs.weight"] = {
      "rope_freqs.weight", kGgufF32, {4}, [](uint64_t, uint64_t, std::byte* out) {
        const float factors[] = {1.0f, 1.0f, 1e30f, 1e30f};
        std::memcpy(out, factors, sizeof(factors));
      }};
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->plan.ropes[0].turning, 2u);
  EXPECT_TRUE(model->plan.ropes[0].factors.empty());
}

TEST(Gemma4File, it_says_what_each_layer_is) {
  GgufDraft draft = gemma4_draft();
  draft.integers["gemma4.attention.head_count_kv"] = {2, 1, 1};
  EXPECT_THAT(draft.fault(), HasSubstr("do not say what each of 2 layers is"));
  draft = gemma4_draft();
  draft.flags.clear();
  EXPECT_THAT(draft.fault(), HasSubstr("'gemma4.attention.sliding_window_pattern'"));
}

}  // namespace
}  // namespace tenon
