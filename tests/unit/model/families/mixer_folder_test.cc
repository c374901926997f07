// Folders and configs of models that mix kinds of layers: Kimi Linear, OLMo Hybrid, LFM3, Bamba
// and Nemotron-H.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/models/model_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

const Keys kKimi = {{"model_type", "\"kimi_linear\""},
                    {"hidden_size", "8"},
                    {"intermediate_size", "6"},
                    {"num_hidden_layers", "3"},
                    {"vocab_size", "16"},
                    {"num_attention_heads", "2"},
                    {"num_key_value_heads", "2"},
                    {"kv_lora_rank", "4"},
                    {"qk_nope_head_dim", "3"},
                    {"qk_rope_head_dim", "2"},
                    {"v_head_dim", "5"},
                    {"num_experts", "2"},
                    {"num_experts_per_token", "1"},
                    {"moe_intermediate_size", "4"},
                    {"linear_attn_config",
                     R"({"head_dim":3,"num_heads":2,"short_conv_kernel_size":3,
                         "full_attn_layers":[2],"kda_layers":[1,3]})"}};
const Keys kOlmo = {{"model_type", "\"olmo_hybrid\""},
                    {"hidden_size", "8"},
                    {"intermediate_size", "6"},
                    {"num_hidden_layers", "2"},
                    {"vocab_size", "16"},
                    {"num_attention_heads", "2"},
                    {"rope_parameters", R"({"rope_theta":null})"},
                    {"layer_types", R"(["linear_attention","full_attention"])"}};
const Keys kLfm3 = {{"model_type", "\"lfm3\""},   {"hidden_size", "8"},
                    {"intermediate_size", "6"},   {"num_hidden_layers", "3"},
                    {"vocab_size", "16"},         {"num_attention_heads", "2"},
                    {"num_key_value_heads", "1"}, {"head_dim", "4"}};
const Keys kNemotron = {{"model_type", "\"nemotron_h\""},
                        {"hidden_size", "8"},
                        {"intermediate_size", "6"},
                        {"vocab_size", "16"},
                        {"num_attention_heads", "2"},
                        {"num_key_value_heads", "1"},
                        {"head_dim", "4"},
                        {"mamba_num_heads", "4"},
                        {"mamba_head_dim", "3"},
                        {"ssm_state_size", "5"},
                        {"n_groups", "2"},
                        {"n_routed_experts", "3"},
                        {"moe_intermediate_size", "4"},
                        {"moe_shared_expert_intermediate_size", "7"},
                        {"hybrid_override_pattern", "\"M-*E\""}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

std::string text_of(const Keys& keys) {
  ModelFolder folder;
  folder.config = keys;
  return folder.config_text();
}

// Every tensor of a config, by the names of published files; element i holds i.
struct MixedFolder : ModelFolder {
  explicit MixedFolder(const Keys& keys) {
    config = keys;
    tensors.clear();
    for (const TensorSpec& spec : list_tensors(plan_of(config_text()))) {
      for (uint32_t expert = 0; expert < std::max(spec.experts, 1u); ++expert) {
        StoredTensor& tensor =
            tensors[spec.experts > 0 ? expert_name(spec.name, expert) : spec.name];
        tensor.shape = spec.shape;
        if (spec.shape.empty()) tensor.shape = {spec.rows};
        if (spec.columns > 0) tensor.shape.push_back(spec.columns);
        for (uint64_t i = 0; i < spec.rows * std::max<uint64_t>(spec.columns, 1); ++i) {
          tensor.values.push_back(static_cast<float>(i));
        }
      }
    }
  }
  void rename(const std::string& from, const std::string& to) {
    std::map<std::string, StoredTensor> renamed;
    for (auto& [name, tensor] : tensors) {
      const size_t at = name.find(from);
      renamed[at == name.npos ? name : std::string(name).replace(at, from.size(), to)] = tensor;
    }
    tensors = std::move(renamed);
  }
};

TEST(MixedFolders, kimi_has_its_convolutions_in_one_vector_by_either_form_of_names) {
  MixedFolder folder(kKimi);
  ASSERT_TRUE(folder.tensors.contains("model.layers.0.mlp.gate_proj.weight"));
  ASSERT_TRUE(folder.tensors.contains("model.layers.1.block_sparse_moe.experts.1.w2.weight"));
  for (const bool newer : {false, true}) {
    if (newer) folder.rename(".mlp.", ".block_sparse_moe.");
    folder.write();
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const LayerWeights& delta = (*model)->layers[0];
    ASSERT_EQ(delta.ssm_conv.size(), 3u * 6 * 3);
    EXPECT_EQ(delta.ssm_conv[17], 17.0f);
    EXPECT_EQ(delta.ssm_conv[18], 0.0f);
    EXPECT_EQ(delta.ssm_conv[53], 17.0f);
    EXPECT_EQ(delta.ssm_q.n_out, 6u);
    EXPECT_EQ(delta.ssm_in.n_out, 0u);
    EXPECT_EQ(delta.ssm_gate.k_in, 3u);
    EXPECT_EQ(delta.ssm_step.k_in, 3u);
    EXPECT_EQ((*model)->layers[1].kv_a.n_out, 6u);
    EXPECT_EQ((*model)->layers[2].experts.size(), 2u);
  }
}

TEST(MixedFolders, olmo_hybrid_has_either_name_of_the_norm_after_attention) {
  MixedFolder folder(kOlmo);
  for (const bool newer : {false, true}) {
    if (newer) folder.rename("post_attention_layernorm", "feedforward_layer_norm");
    folder.write();
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->layers[0].mlp_norm.size(), 8u);
    EXPECT_EQ((*model)->layers[1].attention_post_norm.size(), 8u);
    EXPECT_TRUE((*model)->layers[1].mlp_norm.empty());
  }
}

TEST(MixedFolders, lfm3_has_either_name_of_the_gate_after_attention) {
  MixedFolder folder(kLfm3);
  for (const bool newer : {false, true}) {
    if (newer) folder.rename("self_attn.gate_proj", "self_attn.g_proj");
    folder.write();
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->layers[2].output_gate.n_out, 2u);
  }
}

// By their sizes they are 6, 6 and 12 rows.
TEST(MixedFolders, convolutions_in_equal_thirds_are_one_vector_all_the_same) {
  MixedFolder folder(with(kOlmo, {{"linear_key_head_dim", "3"}}));
  for (const std::string part : {"q", "k", "v"}) {
    StoredTensor& tensor = folder.tensors["model.layers.0.linear_attn." + part + "_conv1d.weight"];
    tensor.shape[0] = 8;
    tensor.values.assign(8 * 4, part == "q" ? 1.0f : part == "k" ? 2.0f : 3.0f);
  }
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::vector<float>& conv = (*model)->layers[0].ssm_conv;
  ASSERT_EQ(conv.size(), 24u * 4);
  EXPECT_EQ(conv[31], 1.0f);
  EXPECT_EQ(conv[32], 2.0f);
  EXPECT_EQ(conv[64], 3.0f);
  folder.tensors["model.layers.0.linear_attn.v_conv1d.weight"].shape[0] = 7;
  folder.tensors["model.layers.0.linear_attn.v_conv1d.weight"].values.resize(7 * 4);
  folder.write();
  EXPECT_THAT(std::string(open_model(folder.path()).status().message()),
              HasSubstr("config.json makes it [6, 1, 4]"));
}

TEST(MixedFolders, a_convolution_that_lacks_a_part_is_refused) {
  MixedFolder folder(kKimi);
  folder.tensors.erase("model.layers.2.self_attn.k_conv1d.weight");
  folder.write();
  EXPECT_THAT(std::string(open_model(folder.path()).status().message()),
              HasSubstr("tensor 'model.layers.2.self_attn.k_conv1d.weight' is missing"));
}

// As transformers 5 has them in memory: a convolution is one tensor, and so are experts' matrices.
TEST(MixedFolders, kimi_has_the_names_that_it_has_in_memory) {
  MixedFolder folder(kKimi);
  folder.rename(".block_sparse_moe.", ".mlp.");
  for (const char* moved : {"f_a_proj", "f_b_proj", "dt_bias", "A_log"}) {
    folder.rename("self_attn." + std::string(moved), "self_attn.forget_gate." + std::string(moved));
  }
  for (const std::string layer : {"model.layers.0.self_attn.", "model.layers.2.self_attn."}) {
    StoredTensor joined{.shape = {18, 1, 3}, .values = {}};
    for (const std::string part : {"q", "k", "v"}) {
      const auto own = folder.tensors.extract(layer + part + "_conv1d.weight").mapped().values;
      joined.values.insert(joined.values.end(), own.begin(), own.end());
    }
    folder.tensors[layer + "conv1d.weight"] = joined;
  }
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const LayerWeights& delta = (*model)->layers[0];
  ASSERT_EQ(delta.ssm_conv.size(), 3u * 6 * 3);
  EXPECT_EQ(delta.ssm_conv[17], 17.0f);
  EXPECT_EQ(delta.ssm_conv[18], 0.0f);
  EXPECT_EQ((*model)->layers[2].experts.size(), 2u);
  folder.tensors["model.layers.0.self_attn.conv1d.weight"].shape[0] = 17;
  folder.tensors["model.layers.0.self_attn.conv1d.weight"].values.resize(17 * 3);
  folder.write();
  EXPECT_THAT(std::string(open_model(folder.path()).status().message()),
              HasSubstr("self_attn.conv1d.weight"));
}

TEST(MixedFolders, olmo_hybrid_has_the_names_that_it_has_in_memory) {
  MixedFolder folder(kOlmo);
  folder.rename("attention_layer_norm", "input_layernorm");
  folder.rename("feedforward_layer_norm", "post_attention_layernorm");
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->layers[0].mlp_norm.size(), 8u);
  EXPECT_EQ((*model)->layers[1].attention_post_norm.size(), 8u);
}

TEST(MixedFolders, nemotron_has_experts_of_a_layer_in_one_tensor) {
  MixedFolder folder(kNemotron);
  folder.rename("backbone.", "model.");
  for (const auto& [name, rows, columns] : {std::tuple("up_proj", uint64_t{4}, uint64_t{8}),
                                            std::tuple("down_proj", uint64_t{8}, uint64_t{4})}) {
    StoredTensor all{.shape = {3, rows, columns}, .values = {}};
    const std::string experts = "model.layers.3.mixer.experts.";
    for (const std::string expert : {"0.", "1.", "2."}) {
      const auto own = folder.tensors.extract(experts + expert + name + ".weight").mapped().values;
      all.values.insert(all.values.end(), own.begin(), own.end());
    }
    folder.tensors[experts + name] = all;
  }
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->layers[3].experts[2].up.n_out, 4u);
  EXPECT_EQ((*model)->layers[3].experts[2].down.n_out, 8u);
  folder.tensors["model.layers.9.mixer.strange"] = {.shape = {1}, .values = {1.0f}};
  folder.tensors["model.strange"] = {.shape = {1}, .values = {1.0f}};
  folder.write();
  EXPECT_THAT(std::string(open_model(folder.path()).status().message()),
              HasSubstr("'model.strange' has no place"));
}

TEST(MixedFolders, layers_of_nemotron_are_one_half_each) {
  MixedFolder folder(with(kNemotron, {{"moe_latent_size", "6"}}));
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const std::vector<LayerPlan>& layers = (*model)->plan.layers;
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_TRUE(layers[0].recurrent && !layers[0].has_mlp());
  EXPECT_TRUE(!layers[1].recurrent && !layers[1].attends() && layers[1].mlp.width == 6);
  EXPECT_TRUE(layers[2].attends() && layers[2].attention.rope == -1);
  EXPECT_EQ((*model)->layers[3].experts[2].up.k_in, 6u);
  EXPECT_EQ((*model)->layers[3].latent_out.n_out, 8u);
  EXPECT_EQ((*model)->layers[3].experts[0].gate.n_out, 0u);
}

std::vector<size_t> attending(const ModelPlan& plan) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.layers[i].attends()) layers.push_back(i);
  }
  return layers;
}

TEST(MixedConfigs, kimi_counts_from_one_in_published_files) {
  EXPECT_THAT(attending(plan_of(text_of(kKimi))), ElementsAre(1));
  const ModelPlan plan =
      plan_of(text_of(with(kKimi, {{"layer_types", R"(["full_attention","linear_attention",
                                                       "linear_attention"])"}})));
  EXPECT_THAT(attending(plan), ElementsAre(0));
  EXPECT_EQ(plan.layers[1].recurrent.decays, 3u);
  EXPECT_EQ(plan.layers[1].recurrent.width, 3u);
  Keys keys = with(kKimi, {{"num_hidden_layers", "9"}});
  keys.erase("linear_attn_config");
  EXPECT_THAT(attending(plan_of(text_of(keys))), ElementsAre(4, 8));
}

TEST(MixedConfigs, what_kimi_cannot_be_is_refused) {
  const auto why = [](const Keys& more) { return refusal(text_of(with(kKimi, more))); };
  EXPECT_THAT(why({{"mla_use_nope", "false"}}), HasSubstr("'mla_use_nope' is false"));
  EXPECT_THAT(why({{"num_key_value_heads", "1"}}), HasSubstr("'num_key_value_heads' is 1"));
  EXPECT_THAT(why({{"moe_router_activation_func", "\"softmax\""}}),
              HasSubstr("'moe_router_activation_func' is 'softmax'"));
  EXPECT_THAT(why({{"hidden_act", "\"relu\""}}), HasSubstr("'hidden_act'"));
  EXPECT_THAT(why({{"mlp_layer_types", R"(["dense"])"}}), HasSubstr("'mlp_layer_types'"));
  EXPECT_THAT(why({{"linear_attn_config", R"({"full_attn_layers":[4],"kda_layers":[1,2]})"}}),
              HasSubstr("expected layers from 1 to 3"));
  EXPECT_THAT(why({{"linear_attn_config", R"({"full_attn_layers":[3],"kda_layers":[1]})"}}),
              HasSubstr("do not name each of 3 layers"));
  EXPECT_THAT(why({{"linear_attn_config", R"({"head_dim":30000,"num_heads":30000})"}}),
              HasSubstr("too wide"));
}

TEST(MixedConfigs, olmo_hybrid_turns_where_there_is_a_base) {
  EXPECT_EQ(plan_of(text_of(kOlmo)).layers[1].attention.rope, -1);
  const std::string turning = R"({"rope_type":"default","rope_theta":1e4})";
  EXPECT_EQ(plan_of(text_of(with(kOlmo, {{"rope_parameters", turning}}))).layers[1].attention.rope,
            0);
  const auto rope = [](const Keys& more) {
    return plan_of(text_of(with(kOlmo, more))).layers[1].attention.rope;
  };
  EXPECT_EQ(rope({{"rope_parameters", "null"}}), 0);
  EXPECT_EQ(rope({{"rope_parameters", "null"}, {"rope_theta", "null"}}), -1);
  EXPECT_EQ(plan_of(text_of(kOlmo)).layers[0].recurrent.beta_scale, 2.0f);
  EXPECT_EQ(plan_of(text_of(with(kOlmo, {{"linear_allow_neg_eigval", "false"}})))
                .layers[0]
                .recurrent.beta_scale,
            1.0f);
  EXPECT_THAT(refusal(text_of(with(kOlmo, {{"linear_num_key_heads", "3"}}))),
              HasSubstr("is not a multiple of 'linear_num_key_heads' 3"));
}

TEST(MixedConfigs, kimi_and_nemotron_have_a_head_of_their_own_whatever_is_said) {
  for (const Keys& keys : {kKimi, kNemotron}) {
    EXPECT_FALSE(plan_of(text_of(with(keys, {{"tie_word_embeddings", "true"}}))).tied_embeddings);
  }
}

TEST(MixedConfigs, nemotron_has_its_layers_by_either_list) {
  const ModelPlan marks = plan_of(text_of(kNemotron));
  Keys keys = with(kNemotron,
                   {{"layers_block_type", R"(["linear_attention","mlp","full_attention","moe"])"}});
  keys.erase("hybrid_override_pattern");
  EXPECT_EQ(plan_of(text_of(keys)).layers, marks.layers);
  EXPECT_EQ(marks.layers[0].recurrent.least_step, 0.001f);
  EXPECT_THAT(refusal(text_of(with(kNemotron, {{"hybrid_override_pattern", "\"MX\""}}))),
              HasSubstr("'hybrid_override_pattern' has"));
  EXPECT_THAT(refusal(text_of(with(kNemotron, {{"mlp_bias", "true"}}))),
              HasSubstr("experts with biases are not built here"));
  EXPECT_THAT(refusal(text_of(with(kNemotron, {{"mamba_hidden_act", "\"relu\""}}))),
              HasSubstr("'mamba_hidden_act'"));
  EXPECT_THAT(refusal(text_of(with(kNemotron, {{"n_groups", "3"}}))),
              HasSubstr("is not a multiple of 'n_groups' 3"));
}

// As llama.cpp's converter writes them.
TEST(MixedConfigs, tensors_have_their_names_in_gguf_files) {
  const std::pair<const Family*, std::vector<std::pair<std::string, std::string>>> families[] = {
      {&kKimiLinear,
       {{"self_attn.q_proj.weight", "attn_q.weight"},
        {"self_attn.v_conv1d.weight", "ssm_conv1d_v.weight"},
        {"self_attn.f_a_proj.weight", "ssm_f_a.weight"},
        {"self_attn.f_b_proj.weight", "ssm_f_b.weight"},
        {"self_attn.b_proj.weight", "ssm_beta.weight"},
        {"self_attn.A_log", "ssm_a"},
        {"self_attn.dt_bias", "ssm_dt.bias"},
        {"self_attn.g_a_proj.weight", "ssm_g_a.weight"},
        {"self_attn.g_b_proj.weight", "ssm_g_b.weight"},
        {"self_attn.o_norm.weight", "ssm_norm.weight"},
        {"self_attn.o_proj.weight", "attn_output.weight"},
        {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
        {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
        {"block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight"},
        {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias"},
        {"mlp.down_proj.weight", "ffn_down.weight"}}},
      {&kNemotronH,
       {{"norm.weight", "attn_norm.weight"},
        {"mixer.in_proj.weight", "ssm_in.weight"},
        {"mixer.o_proj.weight", "attn_output.weight"},
        {"mixer.up_proj.weight", "ffn_up.weight"},
        {"mixer.gate.weight", "ffn_gate_inp.weight"},
        {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
        {"mixer.fc1_latent_proj.weight", "ffn_latent_down.weight"},
        {"mixer.fc2_latent_proj.weight", "ffn_latent_up.weight"},
        {"mixer.shared_experts.down_proj.weight", "ffn_down_shexp.weight"}}}};
  for (const auto& [family, names] : families) {
    const std::string base(family->tensors.base);
    for (const auto& [name, stored] : names) {
      EXPECT_EQ(TensorNames(*family).stored(base + "layers.3." + name), "blk.3." + stored);
    }
  }
}

TEST(MixedConfigs, bamba_attends_in_the_layers_of_a_list) {
  const std::string rest = R"("model_type":"bamba","num_hidden_layers":3)";
  EXPECT_THAT(attending(plan_of("{" + rest + R"(,"attn_layer_indices":[1]})")), ElementsAre(1));
  EXPECT_THAT(attending(plan_of("{" + rest + "}")), ElementsAre());
  EXPECT_THAT(refusal("{" + rest + R"(,"attn_layer_indices":[3]})"),
              HasSubstr("expected a list of layers below 3"));
  EXPECT_THAT(refusal("{" + rest + R"(,"partial_rotary_factor":1.0})"),
              HasSubstr("only 0.5 counts"));
}

}  // namespace
}  // namespace tenon
