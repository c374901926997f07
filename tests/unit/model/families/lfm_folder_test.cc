// Configs and folders of LFM2, LFM2-MoE and LFM3: what keys mean, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/model/config/model_config.h"
#include "core/model/convert/gguf_writer.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

Keys of_type(const std::string& model_type, const Keys& more = {}) {
  Keys keys = more;
  keys["model_type"] = "\"" + model_type + "\"";
  const Keys others = {
      {"hidden_size", "8"}, {"intermediate_size", "12"},  {"num_hidden_layers", "3"},
      {"vocab_size", "16"}, {"num_attention_heads", "2"}, {"num_key_value_heads", "1"},
      {"head_dim", "4"}};
  keys.insert(others.begin(), others.end());
  return keys;
}

Keys moe(const Keys& more = {}) {
  Keys keys = more;
  const Keys others = {{"layer_types", R"(["conv","full_attention","conv"])"},
                       {"num_experts", "4"},
                       {"num_experts_per_tok", "2"},
                       {"moe_intermediate_size", "6"}};
  keys.insert(others.begin(), others.end());
  return of_type("lfm2_moe", keys);
}

Result<ModelPlan> plan_of(const Keys& keys) {
  ModelFolder folder;
  folder.config = keys;
  return parse_model_config(folder.config_text(), "c.json");
}

std::string refusal(const Keys& keys) {
  const auto plan = plan_of(keys);
  return plan.ok() ? "none" : std::string(plan.status().message());
}

std::vector<size_t> attending(const Keys& keys) {
  const auto plan = plan_of(keys);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<size_t> layers;
  for (size_t i = 0; plan.ok() && i < plan->layers.size(); ++i) {
    EXPECT_NE(plan->layers[i].attends(), bool{plan->layers[i].recurrent});
    if (plan->layers[i].attends()) layers.push_back(i);
  }
  return layers;
}

uint32_t mlp_width(const Keys& keys) {
  const auto plan = plan_of(of_type("lfm2", keys));
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? plan->layers[0].mlp.width : 0;
}

TEST(LfmConfigs, say_which_layers_attend_by_types_or_by_numbers) {
  EXPECT_THAT(attending(of_type("lfm2")), ElementsAre(0, 1, 2));
  EXPECT_THAT(attending(of_type("lfm2", {{"full_attn_idxs", "[2,7]"}})), ElementsAre(2));
  EXPECT_THAT(attending(of_type("lfm2", {{"full_attn_idxs", "[2]"},
                                         {"layer_types", R"(["conv","full_attention","conv"])"}})),
              ElementsAre(1));
  EXPECT_THAT(attending(of_type("lfm3", {{"num_hidden_layers", "7"}})), ElementsAre(2, 4, 6));
  EXPECT_THAT(refusal(of_type("lfm2", {{"full_attn_idxs", "[-1]"}})),
              HasSubstr("'full_attn_idxs' is a list of 1; expected a list of layers"));
  EXPECT_THAT(refusal(of_type("lfm2", {{"layer_types", R"(["conv"])"}})),
              HasSubstr("expected a list of 3, one type a layer"));
  EXPECT_THAT(refusal(of_type(
                  "lfm2", {{"layer_types", R"(["conv","sliding_attention","full_attention"])"}})),
              HasSubstr("'layer_types' has \"sliding_attention\"; there are \"conv\", "
                        "\"full_attention\""));
  Keys untyped = moe();
  untyped.erase("layer_types");
  EXPECT_THAT(attending(untyped), ElementsAre(0, 1, 2));
}

TEST(LfmConfigs, adjust_the_width_of_the_mlp) {
  EXPECT_EQ(mlp_width({}), 256u);  // 8, up to a multiple of 256
  EXPECT_EQ(mlp_width({{"block_auto_adjust_ff_dim", "false"}}), 12u);
  EXPECT_EQ(mlp_width({{"block_multiple_of", "5"}}), 10u);
  EXPECT_EQ(mlp_width({{"block_multiple_of", "5"}, {"block_ffn_dim_multiplier", "1.4"}}), 15u);
  EXPECT_EQ(mlp_width({{"block_ffn_dim_multiplier", "null"}}), 8u);
  EXPECT_EQ(mlp_width({{"block_ff_dim", "24"}, {"block_multiple_of", "1"}}), 16u);
  EXPECT_THAT(refusal(of_type("lfm2", {{"intermediate_size", "1"}, {"block_multiple_of", "7"}})),
              HasSubstr("the MLP's width is 0 by 'block_auto_adjust_ff_dim'"));
}

TEST(LfmConfigs, tie_the_head_by_either_key) {
  EXPECT_TRUE(plan_of(of_type("lfm2"))->tied_embeddings);
  EXPECT_FALSE(plan_of(of_type("lfm2", {{"tie_embedding", "false"}}))->tied_embeddings);
  EXPECT_TRUE(
      plan_of(moe({{"tie_embedding", "true"}, {"tie_word_embeddings", "false"}}))->tied_embeddings);
}

TEST(LfmConfigs, have_convolutions_of_two_tokens_or_more) {
  const auto plan = plan_of(of_type("lfm3"));
  EXPECT_EQ(plan->layers[0].recurrent.width, 7u);
  EXPECT_EQ(plan->layers[0].recurrent.state_bytes(), 6u * 8 * 4);
  EXPECT_THAT(refusal(of_type("lfm2", {{"conv_L_cache", "1"}})), HasSubstr("'conv_L_cache'"));
}

TEST(LfmConfigs, route_by_sigmoids) {
  const auto plan = plan_of(moe({{"num_dense_layers", "1"}, {"routed_scaling_factor", "1.5"}}));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_FALSE(plan->layers[0].experts);
  const ExpertsPlan& experts = plan->layers[1].experts;
  EXPECT_EQ(experts.count, 4u);
  EXPECT_EQ(experts.scoring, ExpertScoring::sigmoid);
  EXPECT_TRUE(experts.correction && experts.normalised);
  EXPECT_EQ(experts.scale, 1.5f);
  EXPECT_EQ(experts.sum_more, 1e-6f);
  EXPECT_FALSE(plan_of(moe({{"num_dense_layers", "9"}}))->layers[2].experts);
  EXPECT_THAT(refusal(moe({{"num_experts", "0"}})), HasSubstr("'num_experts' is 0"));
}

TEST(LfmConfigs, turn_part_of_each_head_by_the_frequencies_of_the_whole) {
  const auto plan = plan_of(of_type("lfm3", {{"num_hidden_layers", "5"}, {"head_dim", "8"}}));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->ropes.size(), 2u);
  EXPECT_EQ(plan->layers[2].attention.rope, 0);
  EXPECT_EQ(plan->layers[4].attention.rope, 1);
  EXPECT_EQ(plan->layers[2].attention.window_tokens, 0u);
  EXPECT_EQ(plan->layers[4].attention.window_tokens, 256u);
  EXPECT_THAT(rope_frequencies(plan->ropes[0], 64),
              ElementsAre(1.0f, testing::FloatNear(std::pow(1e6f, -0.25f), 1e-7f), 0.0f, 0.0f));
  EXPECT_EQ(plan->ropes[1].theta, 1e4);
  EXPECT_THAT(refusal(of_type("lfm3", {{"rope_parameters", R"({"sliding_attention": {}})"}})),
              HasSubstr("'rope_parameters' has no 'full_attention'"));
}

TEST(LfmConfigs, gate_and_norm_what_lfm3_says) {
  const auto plan = plan_of(of_type("lfm3", {{"attention_bias", "true"}}));
  const LayerPlan& layer = plan->layers[2];
  EXPECT_EQ(layer.attention.gate_width(), 2u);
  EXPECT_TRUE(layer.attention_post_norm && layer.mlp_post_norm);
  // Biases of q, k, v and the output, but none of the gate.
  for (const TensorSpec& spec : list_tensors(*plan)) {
    EXPECT_NE(spec.name, "model.layers.2.self_attn.gate_proj.bias");
  }
  const auto plain =
      plan_of(of_type("lfm3", {{"use_attention_gate", "false"}, {"use_sandwich_norm", "false"}}));
  EXPECT_FALSE(plain->layers[2].attention.output_gate);
  EXPECT_FALSE(plain->layers[2].mlp_post_norm);
}

// The keys and names that llama.cpp's converter writes.
class LfmFile {
 public:
  explicit LfmFile(const std::string& architecture) {
    metadata_.add_text("general.architecture", architecture);
    const std::string own = architecture + ".";
    for (const auto& [key, value] : std::map<std::string, uint32_t>{{"block_count", 3},
                                                                    {"context_length", 64},
                                                                    {"embedding_length", 32},
                                                                    {"feed_forward_length", 64},
                                                                    {"attention.head_count", 2},
                                                                    {"vocab_size", 8},
                                                                    {"shortconv.l_cache", 3}}) {
      metadata_.add_count(own + key, value);
    }
    metadata_.add_integers(own + "attention.head_count_kv", std::vector<int32_t>{0, 1, 0});
    metadata_.add_real(own + "attention.layer_norm_rms_epsilon", 1e-5f);
    metadata_.add_real(own + "rope.freq_base", 1e6f);
    add("token_embd", {8, 32});
    add("token_embd_norm", {32});
    for (const std::string layer : {"blk.0.", "blk.1.", "blk.2."}) {
      add(layer + "attn_norm", {32});
      add(layer + "ffn_norm", {32});
      if (layer == "blk.1.") continue;
      add(layer + "shortconv.in_proj", {96, 32});
      add(layer + "shortconv.conv", {32, 3});
      add(layer + "shortconv.out_proj", {32, 32});
    }
    for (const char* name : {"attn_q", "attn_output"}) add("blk.1." + std::string(name), {32, 32});
    for (const char* name : {"attn_k", "attn_v"}) add("blk.1." + std::string(name), {16, 32});
    for (const char* name : {"attn_q_norm", "attn_k_norm"}) add("blk.1." + std::string(name), {16});
  }
  GgufMetadata& metadata() { return metadata_; }
  void add_mlp(const std::string& layer) {
    for (const char* name : {"ffn_gate", "ffn_up"}) add(layer + name, {64, 32});
    add(layer + "ffn_down", {32, 64});
  }
  // Zeros.
  void add(const std::string& name, const std::vector<uint64_t>& extents,
           const std::string& end = ".weight") {
    const uint64_t row = extents.back() * sizeof(float);
    tensors_.push_back(
        {name + end, kGgufF32, extents, [row](uint64_t, uint64_t rows, std::byte* out) {
           std::fill_n(out, rows * row, std::byte{0});
         }});
  }
  Result<std::unique_ptr<Model>> open() const {
    const std::string path = folder_.path("m.gguf");
    EXPECT_TRUE(write_gguf(path, metadata_, tensors_).ok());
    return open_model(path);
  }

 private:
  TemporaryFolder folder_;
  GgufMetadata metadata_;
  std::vector<GgufPlannedTensor> tensors_;
};

TEST(LfmFiles, are_read_by_the_names_of_llama_cpp) {
  LfmFile file("lfm2");
  for (const char* layer : {"blk.0.", "blk.1.", "blk.2."}) file.add_mlp(layer);
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "lfm2");
  EXPECT_EQ(plan.layers[0].mlp.width, 64u);
  EXPECT_EQ(plan.layers[0].recurrent.width, 3u);
  EXPECT_FALSE(plan.layers[0].recurrent.convolution_bias);
  EXPECT_TRUE(plan.layers[1].attends());
  EXPECT_EQ(plan.layers[1].attention.kv_heads, 1u);
  EXPECT_EQ(plan.ropes[0].theta, 1e6);
  EXPECT_EQ((*model)->layers[2].ssm_in.n_out, 96u);
  EXPECT_EQ((*model)->layers[2].ssm_conv.size(), 96u);
  EXPECT_EQ((*model)->final_norm.size(), 32u);
  EXPECT_TRUE((*model)->embedding_norm.empty());
}

TEST(LfmFiles, with_experts_are_read_by_the_names_of_llama_cpp) {
  LfmFile file("lfm2moe");
  file.add_mlp("blk.0.");
  for (const std::string layer : {"blk.1.", "blk.2."}) {
    file.add(layer + "ffn_gate_inp", {4, 32});
    file.add(layer + "exp_probs_b", {4}, ".bias");
    for (const char* name : {"ffn_gate_exps", "ffn_up_exps"}) file.add(layer + name, {4, 16, 32});
    file.add(layer + "ffn_down_exps", {4, 32, 16});
  }
  for (const auto& [key, value] :
       std::map<std::string, uint32_t>{{"expert_count", 4},
                                       {"expert_used_count", 2},
                                       {"expert_feed_forward_length", 16},
                                       {"leading_dense_block_count", 1},
                                       {"expert_gating_func", 2}}) {
    file.metadata().add_count("lfm2moe." + key, value);
  }
  const auto model = file.open();
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelPlan& plan = (*model)->plan;
  EXPECT_EQ(plan.architecture, "lfm2_moe");
  EXPECT_FALSE(plan.layers[0].experts);
  const ExpertsPlan& experts = plan.layers[2].experts;
  EXPECT_EQ(experts.width, 16u);
  EXPECT_TRUE(experts.correction && experts.normalised);
  EXPECT_EQ(experts.scale, 1.0f);
}

}  // namespace
}  // namespace tenon
