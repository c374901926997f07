// Folders and configs of Zamba 2, whose layers share blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/models/model_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Keys = std::map<std::string, std::string>;

const Keys kZamba = {{"model_type", "\"zamba2\""},
                     {"hidden_size", "8"},
                     {"intermediate_size", "6"},
                     {"vocab_size", "16"},
                     {"n_mamba_heads", "4"},
                     {"mamba_d_state", "3"},
                     {"num_attention_heads", "2"},
                     {"adapter_rank", "2"},
                     {"num_mem_blocks", "2"},
                     {"layers_block_type", R"(["hybrid","mamba","hybrid","hybrid","hybrid"])"}};

std::string zamba(const Keys& changed = {}) {
  ModelFolder folder;
  folder.config = kZamba;
  for (const auto& [key, value] : changed) folder.config[key] = value;
  return folder.config_text();
}

// Every tensor of the config; element i holds i.
struct BlockFolder : ModelFolder {
  BlockFolder() {
    config = kZamba;
    tensors.clear();
    for (const TensorSpec& spec : list_tensors(plan_of(config_text()))) {
      StoredTensor& tensor = tensors[spec.name];
      tensor.shape = spec.shape.empty() ? std::vector<uint64_t>{spec.rows} : spec.shape;
      if (spec.columns > 0) tensor.shape.push_back(spec.columns);
      for (uint64_t i = 0; i < spec.rows * std::max<uint64_t>(spec.columns, 1); ++i) {
        tensor.values.push_back(static_cast<float>(i));
      }
    }
  }
  std::string opened() {
    write();
    const auto model = open_model(path());
    return model.ok() ? "opened" : std::string(model.status().message());
  }
};

std::vector<int32_t> owners(const ModelPlan& plan) {
  std::vector<int32_t> layers;
  for (const LayerPlan& layer : plan.layers) {
    if (layer.shared) layers.push_back(layer.shared.from_layer);
  }
  return layers;
}

std::vector<std::string> names_of(const ModelPlan& plan) {
  std::vector<std::string> names;
  for (const TensorSpec& spec : list_tensors(plan)) names.push_back(spec.name);
  return names;
}

TEST(Zamba2, blocks_take_turns) {
  EXPECT_THAT(owners(plan_of(zamba())), ElementsAre(-1, -1, 0, 2));
  EXPECT_THAT(owners(plan_of(zamba({{"num_mem_blocks", "1"}}))), ElementsAre(-1, 0, 0, 0));
  EXPECT_THAT(owners(plan_of(zamba({{"num_mem_blocks", "9"}}))), ElementsAre(-1, -1, -1, -1));
}

TEST(Zamba2, a_block_is_stored_once_and_what_uses_add_with_it) {
  const std::vector<std::string> names =
      names_of(plan_of(zamba({{"use_shared_attention_adapter", "true"}})));
  const std::string of_block = "model.layers.0.shared_transformer.";
  const std::string adapters = "gate_up_proj_adapter_list.";
  EXPECT_THAT(names, Contains(of_block + "self_attn.q_proj.weight"));
  EXPECT_THAT(names, Contains(of_block + "feed_forward." + adapters + "0.0.weight"));
  EXPECT_THAT(names, Contains(of_block + "feed_forward." + adapters + "2.1.weight"));
  EXPECT_THAT(names, Contains(of_block + "self_attn.linear_k_adapter_list.2.1.weight"));
  EXPECT_THAT(
      names, Contains("model.layers.2.shared_transformer.feed_forward." + adapters + "3.1.weight"));
  EXPECT_THAT(names, Not(Contains(HasSubstr("layers.3.shared_transformer"))));
  EXPECT_THAT(names, Contains("model.layers.3.linear.weight"));
  EXPECT_THAT(names, Contains("model.layers.3.mamba_decoder.mamba.in_proj.weight"));
  EXPECT_THAT(names, Contains("model.layers.1.mamba.in_proj.weight"));
  EXPECT_THAT(names, Contains("model.layers.1.input_layernorm.weight"));
}

TEST(Zamba2, copies_of_a_block_must_be_copies) {
  const std::string down = "shared_transformer.feed_forward.down_proj.weight";
  BlockFolder folder;
  EXPECT_EQ(folder.opened(), "opened");
  folder.tensors["model.layers.3." + down] = folder.tensors["model.layers.0." + down];
  EXPECT_EQ(folder.opened(), "opened");
  folder.tensors["model.layers.3." + down].values[1] = 7.0f;
  EXPECT_THAT(folder.opened(), HasSubstr("layers.3." + down));
  folder.tensors.erase("model.layers.3." + down);
  folder.tensors.erase("model.layers.2." + down);
  EXPECT_THAT(folder.opened(), HasSubstr("layers.2." + down));
}

TEST(Zamba2, keys_that_say_otherwise_are_refused) {
  const auto refusal_of = [](const std::string& key, const std::string& value) {
    return refusal(zamba({{key, value}}));
  };
  EXPECT_THAT(refusal_of("num_hidden_layers", "6"), HasSubstr("which by the other keys is 5"));
  EXPECT_THAT(refusal_of("hybrid_layer_ids", "[0,2]"),
              HasSubstr("which by the other keys is [0,2,3,4]"));
  EXPECT_THAT(refusal_of("use_conv_bias", "false"), HasSubstr("'use_conv_bias' is false"));
  EXPECT_THAT(refusal_of("attention_head_dim", "4"), HasSubstr("which by the other keys is 8"));
  EXPECT_THAT(refusal_of("layers_block_type", R"(["moe"])"), HasSubstr("has \"moe\""));
  EXPECT_THAT(refusal_of("layers_block_type", "[]"), HasSubstr("expected the type of each layer"));
  EXPECT_THAT(
      refusal(zamba({{"use_shared_attention_adapter", "true"}, {"num_key_value_heads", "1"}})),
      HasSubstr("takes as many KV heads as heads"));
}

TEST(Zamba2, the_usual_layers_are_those_of_the_2_7b) {
  const ModelPlan plan = plan_of(R"({"model_type":"zamba2","n_mamba_heads":80})");
  EXPECT_EQ(plan.layers.size(), 54u);
  EXPECT_EQ(plan.layers[51].shared.use, 9u);
  EXPECT_EQ(plan.layers[0].attention.heads, 0u);
  EXPECT_EQ(plan.layers[6].attention.head_dim, 160u);
}

}  // namespace
}  // namespace tenon
