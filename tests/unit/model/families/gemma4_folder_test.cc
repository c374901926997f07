// Folders and configs of Gemma 4: both spellings of heads by layer, K and V of other layers, what
// is given to layers by themselves, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "core/model/plan/plan_difference.h"
#include "core/model/synth/named_shapes.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

const Keys kSmall = {
    {"model_type", "\"gemma4_text\""},
    {"hidden_size", "8"},
    {"intermediate_size", "6"},
    {"num_hidden_layers", "4"},
    {"layer_types",
     R"(["sliding_attention","full_attention","sliding_attention","full_attention"])"},
    {"vocab_size", "16"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"head_dim", "4"},
    {"global_head_dim", "8"},
    {"sliding_window", "5"},
    {"hidden_size_per_layer_input", "0"}};

Keys with(const Keys& more) {
  Keys keys = more;
  for (const auto& [key, value] : kSmall) keys.emplace(key, value);
  return keys;
}

ModelPlan plan_of(const Keys& keys) {
  ModelFolder folder;
  folder.config = keys;
  const Result<ModelPlan> plan = parse_model_config(folder.config_text(), "c.json");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *plan : ModelPlan();
}

std::string refusal(const Keys& more) {
  ModelFolder folder;
  folder.config = with(more);
  const auto plan = parse_model_config(folder.config_text(), "c.json");
  return plan.ok() ? "none" : std::string(plan.status().message());
}

// Every tensor of a config, with its shape, and ones in it.
struct Gemma4Folder : ModelFolder {
  explicit Gemma4Folder(const Keys& keys) {
    config = keys;
    tensors.clear();
    for (const TensorSpec& spec : list_tensors(plan_of(keys))) {
      std::vector<uint64_t> shape = {spec.rows};
      if (spec.columns > 0) shape.push_back(spec.columns);
      add(spec.name, shape);
    }
  }
  void add(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    tensors[name].shape = std::move(shape);
    tensors[name].values.assign(count, 1.0f);
  }
  std::string fault() const {
    write();
    const auto model = open_model(path());
    return model.ok() ? "none" : std::string(model.status().message());
  }
};

TEST(Gemma4, heads_by_layer_are_read_as_published_and_as_saved_again) {
  const ModelPlan published =
      plan_of(with({{"num_global_key_value_heads", "1"}, {"attention_k_eq_v", "true"}}));
  // What was published counts for nothing next to the newer key.
  const ModelPlan saved =
      plan_of(with({{"attention_k_eq_v", "true"},
                    {"global_head_dim", "6"},
                    {"per_layer_config", R"({"01": {"head_dim": 8, "num_key_value_heads": 1},
                                     "03": {"head_dim": 8, "num_key_value_heads": 1}})"}}));
  EXPECT_EQ(plan_difference(published, saved), "");
  const SelfAttentionPlan &sliding = published.layers[0].attention,
                          &full = published.layers[1].attention;
  EXPECT_EQ(sliding.head_dim, 4u);
  EXPECT_EQ(sliding.kv_heads, 2u);
  EXPECT_EQ(sliding.window_tokens, 5u);
  EXPECT_FALSE(sliding.k_is_v);
  EXPECT_EQ(full.head_dim, 8u);
  EXPECT_EQ(full.kv_heads, 1u);
  EXPECT_EQ(full.window_tokens, 0u);
  EXPECT_TRUE(full.k_is_v);
  EXPECT_EQ(full.scale, 1.0f);
}

TEST(Gemma4, kv_heads_of_layers_without_a_window_need_the_shared_matrix) {
  const ModelPlan plan = plan_of(with({{"num_global_key_value_heads", "1"}}));
  EXPECT_EQ(plan.layers[1].attention.kv_heads, 2u);
}

TEST(Gemma4, the_last_layer_sees_everything) {
  const ModelPlan plan = plan_of(with({{"layer_types", R"(["full_attention","sliding_attention",
                                                       "sliding_attention","sliding_attention"])"}}));
  EXPECT_EQ(plan.layers[2].attention.window_tokens, 5u);
  EXPECT_EQ(plan.layers[3].attention.window_tokens, 0u);
  EXPECT_EQ(plan.layers[3].attention.head_dim, 8u);
}

TEST(Gemma4, frequencies_are_spread_over_the_whole_head_and_the_first_ones_turn) {
  const ModelPlan plan = plan_of(
      with({{"global_head_dim", "16"},
            {"rope_parameters",
             R"({"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.4,
                               "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})"}}));
  const std::vector<float> full = rope_frequencies(plan.ropes[0], 64);
  EXPECT_THAT(full, ElementsAre(1.0f, testing::FloatEq(0.31622776f), testing::FloatEq(0.1f), 0.0f,
                                0.0f, 0.0f, 0.0f, 0.0f));
  EXPECT_THAT(rope_frequencies(plan.ropes[1], 64), ElementsAre(1.0f, testing::FloatEq(0.1f)));
}

TEST(Gemma4, layers_that_read_others_keep_nothing_and_the_two_kinds_of_heads_are_two_groups) {
  const ModelPlan plan =
      plan_of(with({{"num_kv_shared_layers", "2"}, {"use_double_wide_mlp", "true"}}));
  EXPECT_EQ(plan.layers[2].attention.kv_from_layer, 0);
  EXPECT_EQ(plan.layers[3].attention.kv_from_layer, 1);
  EXPECT_EQ(plan.layers[1].mlp.width, 6u);
  EXPECT_EQ(plan.layers[2].mlp.width, 12u);
  const ModelShapeStorage storage(plan, 64);
  const ModelShape& shape = storage.shape();
  ASSERT_EQ(shape.group_count, 2u);
  EXPECT_EQ(shape.groups[0].layers, 1u);
  EXPECT_EQ(shape.groups[0].k_dim, 4u);
  EXPECT_EQ(shape.groups[0].window_tokens, 5u);
  EXPECT_EQ(shape.groups[1].layers, 1u);
  EXPECT_EQ(shape.groups[1].v_dim, 8u);
  EXPECT_EQ(shape.ledger_group, 1u);
}

TEST(Gemma4, k_and_v_that_nobody_reads_may_stay_in_files) {
  Gemma4Folder folder(with({{"num_kv_shared_layers", "2"}}));
  EXPECT_FALSE(folder.tensors.contains("model.layers.3.self_attn.k_proj.weight"));
  folder.add("model.layers.3.self_attn.k_proj.weight", {16, 8});
  folder.add("model.layers.3.self_attn.v_proj.weight", {16, 8});
  folder.add("model.layers.3.self_attn.k_norm.weight", {8});
  EXPECT_EQ(folder.fault(), "none");
  folder.add("model.layers.1.self_attn.v_norm.weight", {8});
  EXPECT_THAT(folder.fault(), HasSubstr("model.layers.1.self_attn.v_norm.weight"));
}

TEST(Gemma4, a_layer_whose_k_is_v_has_no_matrix_of_v) {
  const Keys keys = with({{"attention_k_eq_v", "true"}});
  Gemma4Folder folder(keys);
  EXPECT_TRUE(folder.tensors.contains("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_FALSE(folder.tensors.contains("model.layers.1.self_attn.v_proj.weight"));
  folder.add("model.layers.1.self_attn.v_proj.weight", {16, 8});
  EXPECT_THAT(folder.fault(), HasSubstr("model.layers.1.self_attn.v_proj.weight"));
}

TEST(Gemma4, per_layer_embeddings_have_a_table_of_their_own) {
  const Keys keys =
      with({{"hidden_size_per_layer_input", "3"}, {"vocab_size_per_layer_input", "20"}});
  const Gemma4Folder folder(keys);
  EXPECT_THAT(folder.tensors.at("model.embed_tokens_per_layer.weight").shape, ElementsAre(20, 12));
  EXPECT_THAT(folder.tensors.at("model.per_layer_model_projection.weight").shape,
              ElementsAre(12, 8));
  EXPECT_THAT(folder.tensors.at("model.per_layer_projection_norm.weight").shape, ElementsAre(3));
  EXPECT_THAT(folder.tensors.at("model.layers.1.per_layer_input_gate.weight").shape,
              ElementsAre(3, 8));
  EXPECT_EQ(folder.fault(), "none");
}

TEST(Gemma4, the_unified_model_overlooks_experts_and_per_layer_embeddings) {
  const Keys keys = with({{"model_type", "\"gemma4_unified_text\""},
                          {"hidden_size_per_layer_input", "3"},
                          {"num_experts", "4"}});
  const ModelPlan plan = plan_of(keys);
  EXPECT_FALSE(plan.input());
  EXPECT_FALSE(plan.layers[0].experts);
}

TEST(Gemma4, what_cannot_be_run_is_refused_by_its_key) {
  EXPECT_THAT(refusal({{"use_bidirectional_attention", "\"all\""}}),
              HasSubstr("'use_bidirectional_attention' is 'all'"));
  EXPECT_EQ(refusal({{"use_bidirectional_attention", "\"vision\""}}), "none");
  EXPECT_THAT(refusal({{"per_layer_config", R"({"1": {"intermediate_size": 8}})"}}),
              HasSubstr("'per_layer_config' has 'intermediate_size' for layer 1"));
  EXPECT_THAT(refusal({{"per_layer_config", R"({"4": {"head_dim": 8}})"}}),
              HasSubstr("'per_layer_config' has '4'; there are layers 0 to 3"));
  EXPECT_THAT(refusal({{"per_layer_config", R"({"1": {"head_dim": 8}})"}}),
              AllOf(HasSubstr("layer 3 has 4 heads of 4"), HasSubstr("others of its kind")));
  EXPECT_THAT(refusal({{"num_kv_shared_layers", "3"}}),
              HasSubstr("layer 1 has no layer of its kind before those"));
  EXPECT_THAT(refusal({{"num_kv_shared_layers", "4"}}), HasSubstr("'num_kv_shared_layers' is 4"));
  EXPECT_THAT(refusal({{"hidden_size_per_layer_input", "2"}, {"vocab_size_per_layer_input", "9"}}),
              HasSubstr("'vocab_size_per_layer_input' is 9; expected a row for each of 16 tokens"));
  EXPECT_THAT(refusal({{"enable_moe_block", "true"}, {"num_experts", "4"}}),
              AllOf(HasSubstr("'top_k_experts' is missing"),
                    HasSubstr("'moe_intermediate_size' is missing")));
  EXPECT_THAT(refusal({{"num_global_key_value_heads", "3"}, {"attention_k_eq_v", "true"}}),
              HasSubstr("layer 1 has 4 heads of 8 on 3 KV heads"));
}

TEST(Gemma4, published_sizes_are_those_of_the_models) {
  const auto e4b = named_shape("gemma-4-e4b");
  ASSERT_TRUE(e4b.ok()) << e4b.status().message();
  const ModelShapeStorage storage(e4b->plan, 4096);
  ASSERT_EQ(storage.shape().group_count, 2u);
  EXPECT_EQ(storage.shape().groups[0].layers, 20u);
  EXPECT_EQ(storage.shape().groups[0].k_dim, 256u);
  EXPECT_EQ(storage.shape().groups[1].layers, 4u);
  EXPECT_EQ(storage.shape().groups[1].k_dim, 512u);
  EXPECT_EQ(e4b->plan.layer_inputs_width(), 42u * 256u);
  // Of fewer layers, the last ones share what one of their kind before them keeps.
  const auto seven = named_shape("gemma-4-e4b", 7), two = named_shape("gemma-4-e4b", 2);
  ASSERT_TRUE(seven.ok() && two.ok());
  EXPECT_EQ(seven->plan.layers.back().attention.kv_from_layer, 5);
  EXPECT_EQ(two->plan.layers.back().attention.kv_from_layer, -1);
  const auto moe = named_shape("gemma-4-26b-a4b");
  ASSERT_TRUE(moe.ok()) << moe.status().message();
  EXPECT_EQ(moe->plan.layers[5].attention.kv_heads, 2u);
  EXPECT_TRUE(moe->plan.layers[5].has_dense_mlp());
  EXPECT_FALSE(moe->plan.input());
}

}  // namespace
}  // namespace tenon
