// Falcon-H1, whose layers attend and recur, and Jamba, whose layers are of kinds that come round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/log.h"
#include "core/model/convert/convert.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/folders.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

const Keys kFalcon = {
    {"model_type", "\"falcon_h1\""}, {"hidden_size", "8"},  {"intermediate_size", "6"},
    {"num_hidden_layers", "2"},      {"vocab_size", "16"},  {"num_attention_heads", "2"},
    {"num_key_value_heads", "1"},    {"mamba_d_ssm", "12"}, {"mamba_n_heads", "4"},
    {"mamba_d_state", "5"}};
const Keys kJamba = {{"model_type", "\"jamba\""},  {"hidden_size", "8"},
                     {"intermediate_size", "6"},   {"num_hidden_layers", "5"},
                     {"vocab_size", "16"},         {"num_attention_heads", "2"},
                     {"num_key_value_heads", "1"}, {"num_experts", "3"},
                     {"attn_layer_period", "3"},   {"attn_layer_offset", "1"}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

std::string text_of(const Keys& keys) {
  ModelFolder folder;
  folder.config = keys;
  return folder.config_text();
}
LayerPlan first_layer(const Keys& more) {
  return plan_of(text_of(with(kFalcon, more))).layers.front();
}

TEST(FalconH1Config, each_layer_attends_and_recurs_by_one_norm) {
  const LayerPlan layer = first_layer({});
  EXPECT_TRUE(layer.attends());
  EXPECT_EQ(layer.recurrent.kind, Recurrence::mamba2);
  EXPECT_EQ(layer.recurrent.inner(), 12u);
  EXPECT_EQ(layer.recurrent.head_dim, 3u);
  EXPECT_FALSE(layer.recurrent.gate_norm);
  EXPECT_FALSE(layer.recurrent.scales_inputs());
  EXPECT_EQ(layer.attention_scale(), 1.0f);
}

TEST(FalconH1Config, a_width_of_null_follows_from_the_stream) {
  EXPECT_EQ(first_layer({{"mamba_d_ssm", "null"}, {"mamba_expand", "3"}}).recurrent.inner(), 24u);
  EXPECT_EQ(first_layer({{"mamba_d_ssm", "24"}, {"mamba_expand", "7"}}).recurrent.inner(), 24u);
  EXPECT_THAT(
      refusal(text_of(with(kFalcon, {{"mamba_d_head", "5"}}))),
      HasSubstr("4 heads ('mamba_n_heads') of 5 ('mamba_d_head') are not the inner width 12 "
                "('mamba_d_ssm')"));
}

TEST(FalconH1Config, factors_stand_where_their_products_are) {
  const Keys keys = with(kFalcon, {{"embedding_multiplier", "1.5"},
                                   {"lm_head_multiplier", "0.25"},
                                   {"key_multiplier", "0.5"},
                                   {"attention_in_multiplier", "2"},
                                   {"attention_out_multiplier", "0.75"},
                                   {"ssm_in_multiplier", "4"},
                                   {"ssm_out_multiplier", "0.5"},
                                   {"ssm_multipliers", "[1,2,3,4,5]"},
                                   {"mlp_multipliers", "[0.5,0.25]"}});
  const ModelPlan plan = plan_of(text_of(keys));
  EXPECT_EQ(plan.embedding_scale, 1.5f);
  EXPECT_EQ(plan.logit_scale, 0.25f);
  const LayerPlan& layer = plan.layers.back();
  EXPECT_FLOAT_EQ(layer.attention.scale, 2 * 2 * 0.5f / std::sqrt(4.0f));
  EXPECT_EQ(layer.attention_scale(), 1.5f);
  EXPECT_EQ(layer.recurrent_scale(), 0.5f);
  EXPECT_EQ(layer.mlp_scale(), 0.25f);
  EXPECT_EQ(layer.mlp.gate_scale, 0.5f);
  const RecurrentScales expected{
      .gate = 4, .x = 8, .b = 12, .c = 16, .step = 20, .output = 0.5f, .input = 4};
  EXPECT_EQ(layer.recurrent.scales, expected);
  EXPECT_EQ(layer.attention.input_scale, 2.0f);
}

TEST(FalconH1Config, its_mixer_has_a_norm_on_request_before_the_gate_or_after) {
  const Keys normed = {{"mamba_rms_norm", "true"}};
  EXPECT_TRUE(first_layer(normed).recurrent.gate_norm);
  EXPECT_TRUE(first_layer(normed).recurrent.norm_before_gate());
  EXPECT_FALSE(first_layer(with(normed, {{"mamba_norm_before_gate", "false"}}))
                   .recurrent.norm_before_gate());
}

TEST(FalconH1Config, each_projection_of_its_mixer_says_of_its_own_bias) {
  const RecurrentPlan in = first_layer({{"mamba_proj_bias", "true"}}).recurrent;
  EXPECT_TRUE(in.projection_bias && !in.output_bias);
  const RecurrentPlan out = first_layer({{"projectors_bias", "true"}}).recurrent;
  EXPECT_TRUE(!out.projection_bias && out.output_bias);
}

TEST(FalconH1Config, what_it_cannot_be_is_refused) {
  const auto why = [](const Keys& more) { return refusal(text_of(with(kFalcon, more))); };
  EXPECT_THAT(why({{"ssm_multipliers", "[1,2]"}}), HasSubstr("expected a list of 5 factors"));
  EXPECT_THAT(why({{"mlp_multipliers", "[1,0]"}}), HasSubstr("expected a list of 2 factors"));
  EXPECT_THAT(why({{"hidden_act", "\"relu\""}}), HasSubstr("'hidden_act'"));
}

TEST(FalconH1File, biases_of_attention_are_taken_and_told_of) {
  auto source = open_model(golden_models() + "falcon_h1_norm_after");
  ASSERT_TRUE(source.ok()) << source.status().message();
  Model& model = **source;
  const TemporaryFolder out;
  std::string told;
  const auto written_and_read = [&](const std::string& path) {
    EXPECT_TRUE(write_gguf_model(model, path, {}, {}).ok());
    told.clear();
    set_log_sink([&](LogLevel, std::string_view, std::string_view text) { told += text; });
    auto read = open_model(path);
    set_log_sink({});
    EXPECT_TRUE(read.ok()) << read.status().message();
    return read.ok() ? *std::move(read) : nullptr;
  };
  ASSERT_NE(written_and_read(out.path("plain.gguf")), nullptr);
  EXPECT_EQ(told, "");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    SelfAttentionPlan& plan = model.plan.layers[i].attention;
    plan.qkv_bias = plan.output_bias = true;
    LayerWeights& layer = model.layers[i];
    layer.q_bias.assign(plan.q_width(), 1.5f);
    layer.k_bias.assign(plan.kv_width(), 2.5f);
    layer.v_bias.assign(plan.v_width(), 3.5f);
    layer.output_bias.assign(model.plan.hidden, 4.5f);
  }
  const auto biased = written_and_read(out.path("biased.gguf"));
  ASSERT_NE(biased, nullptr);
  EXPECT_EQ(biased->layers[1].q_bias, model.layers[1].q_bias);
  EXPECT_EQ(biased->layers[1].k_bias, model.layers[1].k_bias);
  EXPECT_EQ(biased->layers[1].v_bias, model.layers[1].v_bias);
  EXPECT_EQ(biased->layers[1].output_bias, model.layers[1].output_bias);
  EXPECT_THAT(told, HasSubstr("'blk.N.attn_q.bias', 'attn_k.bias' and 'attn_v.bias' of falcon-h1 "
                              "files may be multiplied"));
}

TEST(JambaConfig, kinds_of_layers_come_round) {
  const ModelPlan plan = plan_of(text_of(kJamba));
  std::vector<int> attending, sparse;
  for (const LayerPlan& layer : plan.layers) {
    attending.push_back(layer.attends());
    sparse.push_back(layer.experts ? 1 : 0);
    EXPECT_NE(layer.attends(), bool{layer.recurrent});
    EXPECT_EQ(layer.attention.rope, -1);
  }
  EXPECT_THAT(attending, ElementsAre(0, 1, 0, 0, 1));
  EXPECT_THAT(sparse, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_FALSE(plan.layers[1].experts.normalised);
  EXPECT_TRUE(plan.layers[0].recurrent.low_norm);
  EXPECT_EQ(plan.layers[0].recurrent.step_rank, 1u);
}

TEST(JambaConfig, a_single_expert_is_an_mlp) {
  for (const LayerPlan& layer : plan_of(text_of(with(kJamba, {{"num_experts", "1"}}))).layers) {
    EXPECT_TRUE(layer.has_dense_mlp());
  }
}

TEST(JambaConfig, what_it_cannot_be_is_refused) {
  const auto why = [](const Keys& more) { return refusal(text_of(with(kJamba, more))); };
  EXPECT_THAT(why({{"attn_layer_offset", "3"}}),
              HasSubstr("'attn_layer_offset' is 3; expected less than 'attn_layer_period', which "
                        "is 3"));
  EXPECT_THAT(why({{"num_experts_per_tok", "4"}}), HasSubstr("'num_experts_per_tok'"));
  EXPECT_THAT(why({{"mamba_dt_rank", "0"}}), HasSubstr("'mamba_dt_rank'"));
}

TEST(SideBySide, tensors_have_their_names_in_gguf_files) {
  const std::pair<const Family*, std::vector<std::pair<std::string, std::string>>> families[] = {
      {find_family("falcon_h1"),
       {{"self_attn.q_proj.weight", "attn_q.weight"},
        {"input_layernorm.weight", "attn_norm.weight"},
        {"pre_ff_layernorm.weight", "ffn_norm"},
        {"feed_forward.down_proj.weight", "ffn_down.weight"},
        {"mamba.in_proj.weight", "ssm_in.weight"},
        {"mamba.norm.weight", "ssm_norm.weight"},
        {"mamba.dt_bias", "ssm_dt.bias"},
        {"mamba.A_log", "ssm_a"}}},
      {find_family("jamba"),
       {{"mamba.x_proj.weight", "ssm_x.weight"},
        {"mamba.dt_proj.bias", "ssm_dt.bias"},
        {"mamba.dt_layernorm.weight", "ssm_dt_norm.weight"},
        {"mamba.b_layernorm.weight", "ssm_b_norm.weight"},
        {"mamba.c_layernorm.weight", "ssm_c_norm.weight"},
        {"feed_forward.router.weight", "ffn_gate_inp.weight"},
        {"feed_forward.experts.*.up_proj.weight", "ffn_up_exps.weight"}}}};
  for (const auto& [family, names] : families) {
    ASSERT_NE(family, nullptr);
    for (const auto& [name, stored] : names) {
      EXPECT_EQ(TensorNames(*family).stored("model.layers.3." + name), "blk.3." + stored);
    }
  }
}

}  // namespace
}  // namespace tenon
