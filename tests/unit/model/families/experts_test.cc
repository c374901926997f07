// Checkpoints whose layers have experts: what their config.json means, and what is refused of their
// tensors.
#include "core/model/families/reading/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "tests/support/models/model_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<bool> sparse(const ModelPlan& plan) {
  std::vector<bool> sparse;
  for (const LayerPlan& layer : plan.layers) sparse.push_back(static_cast<bool>(layer.experts));
  return sparse;
}

TEST(Experts, layers_without_experts_follow_from_step_and_list) {
  const std::string head = R"({"model_type":"qwen2_moe","num_hidden_layers":6)";
  EXPECT_THAT(sparse(plan_of(head + "}")), ElementsAre(true, true, true, true, true, true));
  EXPECT_THAT(sparse(plan_of(head + R"(,"decoder_sparse_step":2})")),
              ElementsAre(false, true, false, true, false, true));
  EXPECT_THAT(sparse(plan_of(head + R"(,"decoder_sparse_step":2,"mlp_only_layers":[3,40]})")),
              ElementsAre(false, true, false, false, false, true));
  EXPECT_THAT(sparse(plan_of(head + R"(,"num_experts":0})")),
              ElementsAre(false, false, false, false, false, false));
}

TEST(Experts, families_choose_in_their_own_ways) {
  const ExpertsPlan mixtral = plan_of(R"({"model_type":"mixtral"})").layers[0].experts;
  EXPECT_TRUE(mixtral.normalised);
  EXPECT_EQ(mixtral.count, 8u);
  EXPECT_EQ(mixtral.width, 14336u);
  const ExpertsPlan qwen = plan_of(R"({"model_type":"qwen2_moe"})").layers[0].experts;
  EXPECT_FALSE(qwen.normalised);
  EXPECT_TRUE(qwen.shared_gate);
  EXPECT_EQ(qwen.shared_width, 5632u);
  const LayerPlan gpt_oss = plan_of(R"({"model_type":"gpt_oss"})").layers[0];
  EXPECT_EQ(gpt_oss.experts.scoring, ExpertScoring::softmax_of_chosen);
  EXPECT_EQ(gpt_oss.experts.swiglu_limit, 7.0f);
  EXPECT_TRUE(gpt_oss.experts.router_bias);
  EXPECT_TRUE(gpt_oss.attention.sinks);
  const LayerPlan olmoe = plan_of(R"({"model_type":"olmoe","clip_qkv":8.0})").layers[0];
  EXPECT_EQ(olmoe.attention.clip, 8.0f);
}

TEST(Experts, gpt_oss_takes_the_rotary_setting_of_transformers_where_none_is_given) {
  const ModelPlan plan = plan_of(R"({"model_type":"gpt_oss","num_hidden_layers":3})");
  EXPECT_EQ(plan.ropes[0].scaling.kind, RopeScalingKind::yarn);
  EXPECT_FALSE(plan.ropes[0].scaling.truncate);
  EXPECT_EQ(plan.ropes[0].theta, 150000.0);
  EXPECT_EQ(plan.layers[0].attention.window_tokens, 128u);
  EXPECT_EQ(plan.layers[1].attention.window_tokens, 0u);
}

TEST(Experts, counts_that_contradict_each_other_are_refused) {
  EXPECT_THAT(refusal(R"({"model_type":"mixtral","num_experts_per_tok":9})"),
              HasSubstr("'num_experts_per_tok' is 9; there are 8 experts"));
  EXPECT_THAT(refusal(R"({"model_type":"olmoe","num_experts":8,"num_local_experts":16})"),
              HasSubstr("'num_local_experts' is 16 and 'num_experts' 8; expected the same number"));
  // A family's own name next to the general one.
  for (const std::string family : {"glm_moe_dsa", "glm4_moe", "deepseek_v3", "nemotron_h"}) {
    const std::string counts = R"({"model_type":")" + family +
                               R"(","head_dim":64,"n_routed_experts":64,"num_local_experts":)";
    EXPECT_THAT(refusal(counts + "32}"), HasSubstr("'num_local_experts' is 32 and "
                                                   "'n_routed_experts' 64; expected the same"));
    EXPECT_EQ(plan_of(counts + "64}").architecture, family);
  }
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_moe","mlp_only_layers":["a"]})"),
              HasSubstr("expected a list of layers"));
  EXPECT_THAT(refusal(R"({"model_type":"gpt_oss","num_local_experts":0})"),
              HasSubstr("a gpt-oss model has experts; there are 0"));
}

TEST(Experts, keys_of_another_choice_are_refused_by_name) {
  for (const auto& [key, value] : {std::pair("n_group", "4"),
                                   {"topk_group", "2"},
                                   {"routed_scaling_factor", "2.5"},
                                   {"scoring_func", "\"sigmoid\""},
                                   {"topk_method", "\"noaux_tc\""},
                                   {"n_shared_experts", "1"},
                                   {"first_k_dense_replace", "1"},
                                   {"moe_layer_freq", "2"},
                                   {"swiglu_limit", "7.0"}}) {
    const std::string text =
        refusal(std::string(R"({"model_type":"mixtral",")") + key + "\":" + value + "}");
    EXPECT_THAT(text, HasSubstr("'" + std::string(key) + "' is ")) << key;
    EXPECT_THAT(text, HasSubstr("is not built")) << key;
  }
  EXPECT_THAT(refusal(R"({"model_type":"llama","num_experts":8})"),
              HasSubstr("'num_experts' is 8; mixture of experts is not built"));
}

TEST(Experts, groups_must_hold_what_is_chosen) {
  nlohmann::json empty = nlohmann::json::object();
  const auto fault = [&](const ExpertsPlan& plan) {
    Faults faults;
    check_experts(JsonFields(empty, faults), plan);
    return faults.any() ? std::string(faults.status("c").message()) : "none";
  };
  EXPECT_THAT(fault({.count = 6, .chosen = 2, .groups = 4}), HasSubstr("4 equal groups"));
  EXPECT_THAT(fault({.count = 6, .chosen = 3, .groups = 3, .groups_chosen = 1}),
              HasSubstr("1 of 3 groups of experts are chosen, 2 experts each; expected 3 experts"));
  EXPECT_THAT(fault({.count = 4,
                     .chosen = 2,
                     .groups = 4,
                     .groups_chosen = 2,
                     .group_score = GroupScore::best_two}),
              HasSubstr("no two best ones"));
  EXPECT_EQ(fault({.count = 6, .chosen = 3, .groups = 3, .groups_chosen = 2}), "none");
}

// The folder of tests/support/models/model_folder.h with four experts in its layers.
class ExpertFolder : public ModelFolder {
 public:
  explicit ExpertFolder(uint64_t width = 6) {
    config["model_type"] = "\"qwen3_moe\"";
    config["head_dim"] = "4";
    config["num_experts"] = "4";
    config["num_experts_per_tok"] = "2";
    config["moe_intermediate_size"] = std::to_string(width);
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        tensors.erase(layer + "mlp." + name + ".weight");
      }
      put(layer + "self_attn.q_norm.weight", {4});
      put(layer + "self_attn.k_norm.weight", {4});
      put(layer + "mlp.gate.weight", {4, 8});
      for (int expert = 0; expert < 4; ++expert) {
        const std::string prefix = layer + "mlp.experts." + std::to_string(expert) + ".";
        put(prefix + "gate_proj.weight", {width, 8});
        put(prefix + "up_proj.weight", {width, 8});
        put(prefix + "down_proj.weight", {8, width});
      }
    }
  }
  void put(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    StoredTensor& tensor = tensors[name] = {DType::f32, std::move(shape), {}};
    for (uint64_t i = 0; i < count; ++i) tensor.values.push_back(next_ += 0.125f);
  }
  std::string refusal() const {
    write();
    const auto model = open_model(path());
    return model.ok() ? "none" : std::string(model.status().message());
  }

 private:
  float next_ = 0.0f;
};

TEST(ExpertTensors, a_sound_folder_opens) {
  const ExpertFolder folder;
  EXPECT_EQ(folder.refusal(), "none");
}

TEST(ExpertTensors, a_missing_expert_is_named) {
  ExpertFolder folder;
  folder.tensors.erase("model.layers.1.mlp.experts.2.up_proj.weight");
  EXPECT_THAT(folder.refusal(),
              HasSubstr("tensor 'model.layers.1.mlp.experts.2.up_proj.weight' is missing; expected "
                        "[6, 8]"));
}

TEST(ExpertTensors, an_expert_too_many_is_named) {
  ExpertFolder folder;
  folder.put("model.layers.0.mlp.experts.4.up_proj.weight", {6, 8});
  EXPECT_THAT(folder.refusal(),
              HasSubstr("tensor 'model.layers.0.mlp.experts.4.up_proj.weight' has "
                        "no place in the model that config.json describes"));
}

TEST(ExpertTensors, an_expert_and_a_router_of_another_shape_are_named) {
  ExpertFolder folder;
  folder.put("model.layers.0.mlp.experts.3.down_proj.weight", {6, 8});
  folder.put("model.layers.1.mlp.gate.weight", {5, 8});
  EXPECT_THAT(folder.refusal(), HasSubstr("'model.layers.0.mlp.experts.3.down_proj.weight' is [6, "
                                          "8]; config.json makes it [8, 6]"));
  EXPECT_THAT(folder.refusal(),
              HasSubstr("'model.layers.1.mlp.gate.weight' is [5, 8]; config.json makes it [4, 8]"));
}

TEST(ExpertTensors, a_plain_mlp_in_a_layer_with_experts_has_no_place) {
  ExpertFolder folder;
  folder.put("model.layers.0.mlp.gate_proj.weight", {12, 8});
  EXPECT_THAT(folder.refusal(),
              HasSubstr("tensor 'model.layers.0.mlp.gate_proj.weight' has no place"));
}

// As transformers 5 holds them: the rows of gate, then those of up.
void stack(ExpertFolder& folder, const std::string& layer, uint64_t width = 6) {
  StoredTensor in{DType::f32, {4, 2 * width, 8}, {}}, out{DType::f32, {4, 8, width}, {}};
  for (int expert = 0; expert < 4; ++expert) {
    const std::string prefix = layer + "mlp.experts." + std::to_string(expert) + ".";
    for (const auto& [name, to] :
         {std::pair("gate_proj", &in), {"up_proj", &in}, {"down_proj", &out}}) {
      const auto taken = folder.tensors.extract(prefix + name + ".weight");
      to->values.insert(to->values.end(), taken.mapped().values.begin(),
                        taken.mapped().values.end());
    }
  }
  folder.tensors[layer + "mlp.experts.gate_up_proj"] = std::move(in);
  folder.tensors[layer + "mlp.experts.down_proj"] = std::move(out);
}

TEST(ExpertTensors, stacked_experts_are_the_same_as_experts_apart) {
  ExpertFolder folder;
  folder.write();
  const auto apart = open_model(folder.path());
  ASSERT_TRUE(apart.ok());
  ExpertFolder other;
  stack(other, "model.layers.0.");
  stack(other, "model.layers.1.");
  other.write();
  const auto stacked = open_model(other.path());
  ASSERT_TRUE(stacked.ok()) << stacked.status().message();
  for (const auto member : {&ExpertWeights::gate, &ExpertWeights::up, &ExpertWeights::down}) {
    const Weight& a = (*apart)->layers[1].experts[2].*member;
    const Weight& b = (*stacked)->layers[1].experts[2].*member;
    EXPECT_EQ(std::memcmp(a.parts[0].data, b.parts[0].data, sizeof(float) * a.n_out * a.k_in), 0);
  }
  EXPECT_EQ((*stacked)->layers[1].experts[2].up.name, "model.layers.1.mlp.experts.gate_up_proj[2]");
}

void turn(StoredTensor& tensor) {
  const uint64_t rows = tensor.shape[1], columns = tensor.shape[2];
  std::vector<float> turned;
  for (uint64_t expert = 0; expert < tensor.shape[0]; ++expert) {
    for (uint64_t k = 0; k < columns; ++k) {
      for (uint64_t n = 0; n < rows; ++n) {
        turned.push_back(tensor.values[(expert * rows + n) * columns + k]);
      }
    }
  }
  tensor.values = std::move(turned);
  std::swap(tensor.shape[1], tensor.shape[2]);
}

// Published folders of Qwen 3 VL have k_in in front; those that transformers 5 saves do not. One of
// the two tensors is square where experts are 4 or 8 wide, and the other tells.
TEST(ExpertTensors, stacks_of_qwen_3_vl_stand_either_way) {
  const auto opened = [](bool turned, uint64_t width, const std::string& type) {
    ExpertFolder folder(width);
    folder.config["model_type"] = "\"" + type + "\"";
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      stack(folder, layer, width);
      if (!turned) continue;
      turn(folder.tensors[layer + "mlp.experts.gate_up_proj"]);
      turn(folder.tensors[layer + "mlp.experts.down_proj"]);
    }
    folder.write();
    return open_model(folder.path());
  };
  for (const uint64_t width : {4, 6, 8}) {
    const auto plain = opened(false, width, "qwen3_vl_moe_text");
    const auto turned = opened(true, width, "qwen3_vl_moe_text");
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_TRUE(turned.ok()) << turned.status().message();
    EXPECT_TRUE((*plain)->plan.layers[0].experts.normalised);
    for (const auto member : {&ExpertWeights::gate, &ExpertWeights::up, &ExpertWeights::down}) {
      const Weight& a = (*plain)->layers[1].experts[2].*member;
      const Weight& b = (*turned)->layers[1].experts[2].*member;
      EXPECT_EQ(std::memcmp(a.parts[0].data, b.parts[0].data, sizeof(float) * a.n_out * a.k_in), 0)
          << width;
    }
  }
  const auto other = opened(true, 6, "qwen3_moe");
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("is [4, 8, 12]; config.json makes"));
}

TEST(ExpertTensors, a_stack_of_another_shape_is_named) {
  ExpertFolder folder;
  stack(folder, "model.layers.0.");
  folder.put("model.layers.0.mlp.experts.gate_up_proj", {3, 12, 8});
  EXPECT_THAT(folder.refusal(), HasSubstr("tensor 'model.layers.0.mlp.experts.gate_up_proj' is [3, "
                                          "12, 8]; config.json makes it [4, 12, 8]"));
}

TEST(ExpertTensors, routers_are_widened_and_experts_are_not) {
  ExpertFolder folder;
  for (auto& [name, tensor] : folder.tensors) tensor.dtype = DType::bf16;
  folder.write();
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->layers[0].router.format, "f32");
  EXPECT_EQ((*model)->layers[0].experts[3].down.format, "bf16");
}

}  // namespace
}  // namespace tenon
