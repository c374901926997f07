#include "core/model/adapters/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

using testing::HasSubstr;

PeftConfig parsed(const std::string& text) {
  auto config = parse_peft_config(text, "adapter_config.json");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : PeftConfig();
}
std::string refusal(const std::string& text) {
  const auto config = parse_peft_config(text, "adapter_config.json");
  return config.ok() ? "read" : std::string(config.status().message());
}

TEST(PeftConfig, scales_by_alpha_over_rank) {
  const PeftConfig config = parsed(R"({"peft_type": "LORA", "r": 16, "lora_alpha": 24})");
  EXPECT_EQ(config.rank_of("model.layers.0.mlp.up_proj"), 16u);
  EXPECT_EQ(config.scale_of("model.layers.0.mlp.up_proj"), 1.5f);
}

TEST(PeftConfig, divides_by_the_root_of_the_rank_where_that_is_stabilised) {
  const PeftConfig config = parsed(R"({"r": 9, "lora_alpha": 6, "use_rslora": true})");
  EXPECT_EQ(config.scale_of("q_proj"), 2.0f);
}

TEST(PeftConfig, patterns_match_the_ends_of_modules_and_the_first_counts) {
  const PeftConfig config = parsed(R"({"r": 4, "lora_alpha": 8,
      "rank_pattern": {"layers\\.1\\.mlp\\.(gate|up)_proj": 2, "up_proj": 7, "^k_proj": 3},
      "alpha_pattern": {"q_proj": 12}})");
  EXPECT_EQ(config.rank_of("model.layers.1.mlp.up_proj"), 2u);
  EXPECT_EQ(config.rank_of("model.layers.11.mlp.up_proj"), 7u);
  EXPECT_EQ(config.rank_of("model.layers.0.mlp.up_proj"), 7u);
  EXPECT_EQ(config.rank_of("model.layers.0.mlp.backup_proj"), 4u);
  EXPECT_EQ(config.rank_of("model.layers.0.self_attn.k_proj"), 4u);
  EXPECT_EQ(config.scale_of("model.layers.0.self_attn.q_proj"), 3.0f);
  EXPECT_EQ(config.scale_of("model.layers.0.self_attn.q_projection"), 2.0f);
}

TEST(PeftConfig, modules_are_named_by_their_ends) {
  const PeftConfig config = parsed(R"({"target_modules": ["q_proj", "mlp.c_proj"]})");
  EXPECT_TRUE(config.names("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(config.names("h.0.mlp.c_proj"));
  EXPECT_FALSE(config.names("h.0.attn.c_proj"));
  EXPECT_FALSE(config.names("model.layers.0.self_attn.my_q_proj"));
  EXPECT_TRUE(parsed(R"({"target_modules": "all-linear"})").names("anything"));
}

TEST(PeftConfig, layers_may_be_one_or_several) {
  EXPECT_TRUE(parsed("{}").has_layer(7));
  EXPECT_TRUE(parsed(R"({"layers_to_transform": [1, 7]})").has_layer(7));
  EXPECT_FALSE(parsed(R"({"layers_to_transform": [1, 7]})").has_layer(2));
  EXPECT_TRUE(parsed(R"({"layers_to_transform": 0})").has_layer(0));
  EXPECT_FALSE(parsed(R"({"layers_to_transform": 0})").has_layer(1));
}

TEST(PeftConfig, what_changes_the_arithmetic_is_refused_by_name) {
  const std::pair<const char*, const char*> refused[] = {
      {R"("use_dora": true)", "'use_dora' is true: DoRA"},
      {R"("bias": "all")", "'bias' is 'all'"},
      {R"("modules_to_save": ["lm_head"])", "'modules_to_save'"},
      {R"("init_lora_weights": "pissa_niter_16")", "may have changed the base model's own weights"},
      {R"("layer_replication": [[0, 4], [2, 5]])", "'layer_replication'"},
      {R"("trainable_token_indices": [3])", "'trainable_token_indices'"},
      {R"("target_parameters": ["experts.down_proj"])", "'target_parameters'"},
      {R"("alora_invocation_tokens": [1])", "'alora_invocation_tokens'"},
      {R"("lora_bias": true)", "'lora_bias'"},
      {R"("use_qalora": true)", "'use_qalora'"},
      {R"("peft_type": "IA3")", "'peft_type' is 'IA3'; LORA adapters are read"},
      {R"("warp_factor": 9)", "'warp_factor' is 9, and nothing is known of this key"},
  };
  for (const auto& [text, reason] : refused) {
    EXPECT_THAT(refusal("{" + std::string(text) + "}"), HasSubstr(reason));
  }
}

TEST(PeftConfig, what_does_not_is_passed_over) {
  EXPECT_EQ(refusal(R"({"peft_type": "LORA", "lora_dropout": 0.1, "init_lora_weights": "gaussian",
      "modules_to_save": null, "use_dora": false, "target_parameters": [], "loftq_config": {},
      "base_model_name_or_path": "x/y", "task_type": "CAUSAL_LM", "fan_in_fan_out": true,
      "peft_version": "0.17.0", "megatron_core": "megatron.core", "kasa_config": null})"),
            "read");
}

TEST(PeftConfig, wrong_values_are_refused_together) {
  const std::string text =
      refusal(R"({"r": 0, "lora_alpha": "x", "rank_pattern": {"q_proj": 1.5}, "target_modules": 3,
                  "layers_to_transform": [-1]})");
  for (const char* part : {"'r'", "'lora_alpha'", "'rank_pattern' gives 'q_proj' the value 1.5",
                           "'target_modules' is 3", "'layers_to_transform'"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(PeftConfig, patterns_are_bounded_and_must_be_readable) {
  const auto with_pattern = [](const std::string& pattern) {
    return R"({"r": 1, "rank_pattern": {")" + pattern + R"(": 2}})";
  };
  EXPECT_THAT(refusal(with_pattern("(a{1000}){1000}")), HasSubstr("without '{'"));
  EXPECT_THAT(refusal(with_pattern("(")), HasSubstr("no regular expression"));
  EXPECT_THAT(refusal(with_pattern("(?P<x>a)")), HasSubstr("no regular expression"));
  // Catastrophic for matchers that try again and again.
  const PeftConfig config = parsed(with_pattern("(a*)*(a*)*(a*)*b"));
  EXPECT_EQ(config.rank_of(std::string(200, 'a')), 1u);
}

}  // namespace
}  // namespace tenon
