// Folders and configs of models with gated delta rules: what opens, what the parts of a tensor
// become, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

const Keys kNext = {{"model_type", "\"qwen3_next\""},
                    {"hidden_size", "8"},
                    {"intermediate_size", "6"},
                    {"num_hidden_layers", "2"},
                    {"layer_types", R"(["linear_attention","full_attention"])"},
                    {"vocab_size", "16"},
                    {"num_attention_heads", "2"},
                    {"num_key_value_heads", "1"},
                    {"head_dim", "8"},
                    {"linear_num_key_heads", "2"},
                    {"linear_num_value_heads", "4"},
                    {"linear_key_head_dim", "3"},
                    {"linear_value_head_dim", "5"},
                    {"num_experts", "2"},
                    {"num_experts_per_tok", "1"},
                    {"moe_intermediate_size", "4"},
                    {"shared_expert_intermediate_size", "4"}};

Keys of_type(const std::string& model_type, const Keys& more = {}) {
  Keys keys = more;
  keys["model_type"] = "\"" + model_type + "\"";
  for (const auto& [key, value] : kNext) {
    const bool of_experts = key.find("exp") != key.npos || key.find("moe") != key.npos;
    if (!of_experts || model_type != "qwen3_5_text") keys.emplace(key, value);
  }
  return keys;
}

// Every tensor of a config, with its shape; row r of a matrix holds r.
struct DeltaFolder : ModelFolder {
  explicit DeltaFolder(const Keys& keys) {
    config = keys;
    tensors.clear();
    const Result<ModelPlan> plan = parse_model_config(config_text(), "c.json");
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    for (const TensorSpec& spec : list_tensors(*plan)) {
      for (uint32_t expert = 0; expert < std::max(spec.experts, 1u); ++expert) {
        StoredTensor& tensor =
            tensors[spec.experts > 0 ? expert_name(spec.name, expert) : spec.name];
        tensor.shape = spec.shape;
        if (spec.shape.empty()) tensor.shape = {spec.rows};
        if (spec.columns > 0) tensor.shape.push_back(spec.columns);
        const uint64_t columns = std::max<uint64_t>(spec.columns, 1);
        for (uint64_t i = 0; i < spec.rows * columns; ++i) {
          tensor.values.push_back(static_cast<float>(i / columns));
        }
      }
    }
  }
};

std::string folder_refusal(const ModelFolder& folder) {
  folder.write();
  const auto model = open_model(folder.path());
  return model.ok() ? "none" : std::string(model.status().message());
}

std::string config_refusal(const Keys& keys) {
  ModelFolder folder;
  folder.config = keys;
  const auto plan = parse_model_config(folder.config_text(), "c.json");
  return plan.ok() ? "none" : std::string(plan.status().message());
}

std::vector<float> first_column(const Weight& weight) {
  std::vector<float> values, row(weight.k_in);
  for (uint32_t n = 0; n < weight.n_out; ++n) {
    read_row(weight, n, row.data());
    values.push_back(row[0]);
  }
  return values;
}

TEST(DeltaFolders, parts_of_a_tensor_are_gathered_from_its_pieces) {
  const DeltaFolder folder(of_type("qwen3_next"));
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const LayerWeights &delta = (*model)->layers[0], &attends = (*model)->layers[1];
  // Of each of two key heads: q and k of 3, v and gates of two heads of 5.
  const std::vector<float> x = first_column(delta.ssm_in), gate = first_column(delta.ssm_gate);
  ASSERT_EQ(x.size(), 2u * 3 + 2u * 3 + 20u);
  EXPECT_THAT(std::vector(x.begin(), x.begin() + 12),
              testing::ElementsAre(0, 1, 2, 26, 27, 28, 3, 4, 5, 29, 30, 31));
  EXPECT_EQ(x[12], 6.0f);
  EXPECT_EQ(x[22], 32.0f);
  EXPECT_EQ(gate[0], 16.0f);
  EXPECT_EQ(gate[10], 42.0f);
  EXPECT_THAT(first_column(delta.ssm_beta), testing::ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(first_column(delta.ssm_step), testing::ElementsAre(2, 3, 6, 7));
  // Of each of two heads of 8, q and then the gate.
  EXPECT_THAT(first_column(attends.q),
              testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_EQ(first_column(attends.output_gate)[0], 8.0f);
  EXPECT_EQ(first_column(attends.output_gate)[15], 31.0f);
}

TEST(DeltaFolders, biases_of_q_and_its_gate_are_taken_apart_as_the_rows_are) {
  const DeltaFolder folder(of_type("qwen3_5_text", {{"attention_bias", "true"}}));
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->layers[1].q_bias[8], 16.0f);
  EXPECT_EQ((*model)->layers[1].output_gate_bias[0], 8.0f);
}

TEST(DeltaFolders, norms_are_stored_less_one_but_for_that_of_the_delta_rule) {
  const DeltaFolder folder(of_type("qwen3_5_text"));
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->layers[0].attention_norm[2], 3.0f);
  EXPECT_EQ((*model)->layers[1].q_norm[2], 3.0f);
  EXPECT_EQ((*model)->layers[0].ssm_norm[2], 2.0f);
}

TEST(DeltaFolders, are_refused_by_the_tensor_that_is_missing) {
  for (const char* name : {"A_log", "dt_bias", "conv1d.weight", "norm.weight",
                           "in_proj_qkvz.weight", "in_proj_ba.weight", "out_proj.weight"}) {
    DeltaFolder folder(of_type("qwen3_next"));
    const std::string full = std::string("model.layers.0.linear_attn.") + name;
    ASSERT_EQ(folder.tensors.erase(full), 1u) << name;
    EXPECT_THAT(folder_refusal(folder), HasSubstr("tensor '" + full + "' is missing; expected ["));
  }
  for (const char* name : {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}) {
    DeltaFolder folder(of_type("qwen3_5_text"));
    const std::string full = std::string("model.layers.0.linear_attn.") + name + ".weight";
    ASSERT_EQ(folder.tensors.erase(full), 1u) << name;
    EXPECT_THAT(folder_refusal(folder), HasSubstr("tensor '" + full + "' is missing; expected ["));
  }
}

TEST(DeltaFolders, are_refused_by_the_tensor_of_another_shape) {
  DeltaFolder folder(of_type("qwen3_next"));
  folder.config["linear_num_value_heads"] = "6";
  EXPECT_THAT(folder_refusal(folder),
              AllOf(HasSubstr("in_proj_qkvz.weight' is [52, 8]; config.json makes it [72, 8]"),
                    HasSubstr("in_proj_ba.weight' is [8, 8]; config.json makes it [12, 8]")));
  // A gate is half of q_proj's rows.
  DeltaFolder plain(of_type("qwen3_5_text"));
  auto& q = plain.tensors["model.layers.1.self_attn.q_proj.weight"];
  q.shape[0] /= 2;
  q.values.resize(q.values.size() / 2);
  EXPECT_THAT(folder_refusal(plain), HasSubstr("q_proj.weight' is [16, 8]; config.json makes it "
                                               "[32, 8]"));
}

TEST(DeltaFolders, are_refused_by_the_tensor_that_has_no_place) {
  DeltaFolder folder(of_type("qwen3_5_text"));
  folder.tensors["model.layers.0.linear_attn.conv1d.bias"] = {DType::f32, {32}, {}};
  folder.tensors["model.layers.0.linear_attn.conv1d.bias"].values.assign(32, 1.0f);
  EXPECT_THAT(folder_refusal(folder), HasSubstr("conv1d.bias' has no place in the model"));
  DeltaFolder attends(of_type("qwen3_5_text"));
  attends.tensors["model.layers.1.linear_attn.A_log"] = {DType::f32, {4}, {1, 1, 1, 1}};
  EXPECT_THAT(folder_refusal(attends), HasSubstr("linear_attn.A_log' has no place in the model"));
}

TEST(DeltaConfigs, say_what_is_wrong_with_the_heads) {
  EXPECT_THAT(
      config_refusal(of_type("qwen3_next", {{"linear_num_value_heads", "3"}})),
      HasSubstr("'linear_num_value_heads' 3 is not a multiple of 'linear_num_key_heads' 2"));
  EXPECT_THAT(config_refusal(of_type("qwen3_5_text", {{"linear_key_head_dim", "1000000000"}})),
              HasSubstr("too wide"));
  EXPECT_THAT(config_refusal(of_type("qwen3_5_text", {{"linear_conv_kernel_dim", "0"}})),
              HasSubstr("'linear_conv_kernel_dim'"));
}

TEST(DeltaConfigs, say_what_is_wrong_with_the_types_of_layers) {
  EXPECT_THAT(config_refusal(of_type("qwen3_next", {{"layer_types", R"(["full_attention"])"}})),
              HasSubstr("expected a list of 2, one type a layer"));
  EXPECT_THAT(
      config_refusal(of_type("qwen3_5_text",
                             {{"layer_types", R"(["linear_attention","sliding_attention"])"}})),
      HasSubstr("'layer_types' has \"sliding_attention\"; there are \"full_attention\" and "
                "\"linear_attention\""));
}

TEST(DeltaConfigs, refuse_keys_that_change_the_arithmetic) {
  // The convolution's activation is the MLP's.
  for (const std::string family : {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}) {
    EXPECT_THAT(
        config_refusal(of_type(family, {{"hidden_act", "\"gelu\""}})),
        HasSubstr("'hidden_act' is \"gelu\"; recurrent layers are built for \"silu\" only"));
  }
  EXPECT_THAT(config_refusal(of_type("qwen3_5_text", {{"attn_output_gate", "false"}})),
              HasSubstr("'attn_output_gate' is false"));
  EXPECT_THAT(config_refusal(of_type("qwen3_5_moe_text", {{"decoder_sparse_step", "2"}})),
              HasSubstr("'decoder_sparse_step' is 2; layers without experts is not built"));
  EXPECT_THAT(config_refusal(of_type("qwen3_5_moe_text", {{"num_experts", "0"}})),
              HasSubstr("'num_experts' is 0"));
  EXPECT_THAT(config_refusal(of_type("qwen3_5_text", {{"num_experts", "2"}})),
              HasSubstr("'num_experts' is 2; mixture of experts is not built"));
}

// Positions of text are the same on all axes.
TEST(DeltaConfigs, turn_by_one_axis_whatever_is_said_of_those_of_images) {
  ModelFolder folder;
  folder.config =
      of_type("qwen3_5_text", {{"rope_parameters", R"({"rope_type":"default","rope_theta":1e7,
      "partial_rotary_factor":0.5,"mrope_section":[1,1,0],"mrope_interleaved":true})"}});
  const auto plan = parse_model_config(folder.config_text(), "c.json");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->ropes.size(), 1u);
  EXPECT_EQ(plan->ropes[0].dim, 4u);
  EXPECT_EQ(plan->ropes[0].theta, 1e7);
}

TEST(DeltaConfigs, know_every_fourth_layer_where_nothing_says_which_attend) {
  Keys keys = of_type("qwen3_next", {{"num_hidden_layers", "9"}});
  keys.erase("layer_types");
  ModelFolder folder;
  folder.config = keys;
  const auto attending = [&] {
    const auto plan = parse_model_config(folder.config_text(), "c.json");
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    std::vector<size_t> layers;
    for (size_t i = 0; i < plan->layers.size(); ++i) {
      if (plan->layers[i].attends()) layers.push_back(i);
    }
    return layers;
  };
  EXPECT_THAT(attending(), testing::ElementsAre(3, 7));
  folder.config["full_attention_interval"] = "3";
  EXPECT_THAT(attending(), testing::ElementsAre(2, 5, 8));
}

}  // namespace
}  // namespace tenon
