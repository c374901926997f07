#include "core/model/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "core/model/config/json_fields.h"
#include "core/model/families/family.h"
#include "tests/support/models/flat_config.h"

namespace tenon {
namespace {

using test::FlatConfig;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Keys = std::map<std::string, std::string>;

// A small Llama with the given keys set to JSON values; an empty value leaves the key out.
std::string config_text(const Keys& changes) {
  Keys keys = {{"model_type", "\"llama\""},  {"vocab_size", "100"},
               {"hidden_size", "64"},        {"intermediate_size", "128"},
               {"num_hidden_layers", "4"},   {"num_attention_heads", "8"},
               {"num_key_value_heads", "2"}, {"max_position_embeddings", "256"}};
  for (const auto& [key, value] : changes) keys[key] = value;
  std::string text = "{";
  for (const auto& [key, value] : keys) {
    if (!value.empty()) text += (text.size() > 1 ? ",\"" : "\"") + key + "\":" + value;
  }
  return text + "}";
}

ModelPlan plan_of(const Keys& changes) {
  Result<ModelPlan> plan = parse_model_config(config_text(changes), "c.json");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? *std::move(plan) : ModelPlan();
}

FlatConfig parse(const Keys& changes) {
  return test::flat(plan_of(changes));
}

std::string refusal(const Keys& changes) {
  const Result<ModelPlan> config = parse_model_config(config_text(changes), "c.json");
  EXPECT_FALSE(config.ok()) << config_text(changes);
  return std::string(config.status().message());
}

TEST(ModelConfig, missing_keys_take_the_defaults_of_the_family) {
  const FlatConfig llama = parse({{"num_key_value_heads", ""}, {"max_position_embeddings", ""}});
  EXPECT_EQ(llama.kv_heads, 8u);
  EXPECT_EQ(llama.head_dim, 8u);
  EXPECT_EQ(llama.context_tokens, 2048u);
  EXPECT_FLOAT_EQ(llama.norm_eps, 1e-6f);
  EXPECT_EQ(llama.rope_theta, 10000.0);
  EXPECT_EQ(llama.rope_scaling.kind, RopeScalingKind::none);
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_FALSE(llama.qkv_bias || llama.output_bias || llama.mlp_bias || llama.qk_norm);
  EXPECT_EQ(llama.bos, std::optional<TokenId>(1));
  EXPECT_THAT(llama.eos, ElementsAre(2));
  const FlatConfig mistral = parse({{"model_type", "\"mistral\""}, {"num_key_value_heads", ""}});
  EXPECT_EQ(mistral.kv_heads, 8u);
  EXPECT_THAT(mistral.window_tokens, ElementsAre(4096, 4096, 4096, 4096));
  const FlatConfig qwen3 = parse({{"model_type", "\"qwen3\""}});
  EXPECT_EQ(qwen3.head_dim, 128u);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.bos.has_value());
  EXPECT_THAT(qwen3.eos, IsEmpty());
}

TEST(ModelConfig, null_means_as_many_kv_heads_as_heads) {
  EXPECT_EQ(parse({{"model_type", "\"qwen2\""}, {"num_key_value_heads", "null"}}).kv_heads, 8u);
}

TEST(ModelConfig, the_architecture_stands_in_for_a_missing_model_type) {
  const Keys qwen = {{"model_type", ""}, {"architectures", "[\"Qwen2ForCausalLM\"]"}};
  EXPECT_EQ(parse(qwen).architecture, "qwen2");
  EXPECT_EQ(parse({{"architectures", "[\"LLaMAForCausalLM\"]"}}).architecture, "llama");
  EXPECT_THAT(refusal({{"model_type", ""}}), HasSubstr("neither 'model_type' nor 'architectures'"));
}

TEST(ModelConfig, unknown_families_and_heads_of_other_tasks_are_refused) {
  EXPECT_EQ(
      refusal({{"model_type", "\"bert\""}}),
      "c.json: model_type 'bert' is not built: it reads texts, and does not go on writing them; "
      "docs/formats/model-folder.md lists what runs");
  EXPECT_THAT(refusal({{"architectures", "[\"LlamaForSequenceClassification\"]"}}),
              HasSubstr("architecture 'LlamaForSequenceClassification' is not built for model_type "
                        "'llama'; expected 'LlamaForCausalLM'"));
  EXPECT_THAT(refusal({{"architectures", "[\"Qwen2ForCausalLM\"]"}}),
              HasSubstr("architecture 'Qwen2ForCausalLM' is not built for model_type 'llama'"));
}

TEST(ModelConfig, biases_follow_each_familys_rule) {
  const FlatConfig llama = parse({{"attention_bias", "true"}, {"mlp_bias", "true"}});
  EXPECT_TRUE(llama.qkv_bias && llama.output_bias && llama.mlp_bias);
  const FlatConfig qwen2 = parse({{"model_type", "\"qwen2\""}});
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias || qwen2.mlp_bias);
  EXPECT_FALSE(parse({{"model_type", "\"mistral\""}, {"attention_bias", "true"}}).qkv_bias);
}

TEST(ModelConfig, windows_follow_each_familys_rule) {
  const auto windows = [](Keys keys) { return parse(keys).window_tokens; };
  EXPECT_THAT(windows({{"sliding_window", "9"}}), ElementsAre(0, 0, 0, 0));
  const Keys mistral = {{"model_type", "\"mistral\""}, {"sliding_window", "null"}};
  EXPECT_THAT(windows(mistral), ElementsAre(0, 0, 0, 0));
  Keys qwen = {{"model_type", "\"qwen2\""}, {"sliding_window", "9"}, {"max_window_layers", "3"}};
  EXPECT_THAT(windows(qwen), ElementsAre(0, 0, 0, 0));
  qwen["use_sliding_window"] = "true";
  EXPECT_THAT(windows(qwen), ElementsAre(0, 0, 0, 9));
  qwen["layer_types"] = R"(["sliding_attention","full_attention",
                            "sliding_attention","full_attention"])";
  EXPECT_THAT(windows(qwen), ElementsAre(9, 0, 9, 0));
}

TEST(ModelConfig, impossible_layer_types_are_refused) {
  Keys qwen = {{"model_type", "\"qwen2\""}, {"layer_types", "[\"full_attention\"]"}};
  EXPECT_THAT(refusal(qwen), HasSubstr("'layer_types' is a list of 1; expected a list of 4"));
  qwen["num_hidden_layers"] = "1";
  qwen["layer_types"] = "[\"sliding_attention\"]";
  EXPECT_THAT(refusal(qwen), HasSubstr("has sliding layers but there is no sliding window"));
  qwen["layer_types"] = "[\"linear_attention\"]";
  EXPECT_THAT(refusal(qwen), HasSubstr("'layer_types' has \"linear_attention\""));
}

TEST(ModelConfig, token_ids_may_be_one_a_list_or_none) {
  EXPECT_THAT(parse({{"eos_token_id", "7"}}).eos, ElementsAre(7));
  EXPECT_THAT(parse({{"eos_token_id", "[7, 9]"}}).eos, ElementsAre(7, 9));
  EXPECT_THAT(parse({{"eos_token_id", "null"}}).eos, IsEmpty());
  EXPECT_FALSE(parse({{"bos_token_id", "null"}}).bos.has_value());
  // What transformers writes of a family's own ids into the config of a small model.
  EXPECT_THAT(parse({{"eos_token_id", "[7, 100]"}}).eos, ElementsAre(7));
  EXPECT_FALSE(parse({{"bos_token_id", "100"}}).bos.has_value());
  EXPECT_THAT(refusal({{"eos_token_id", "[-1]"}}), HasSubstr("'eos_token_id' is -1"));
  EXPECT_THAT(refusal({{"bos_token_id", "[1,2]"}}), HasSubstr("'bos_token_id' is a list"));
}

TEST(ModelConfig, the_familys_own_ids_are_dropped_where_the_vocabulary_lacks_them) {
  const FlatConfig config = parse({{"vocab_size", "2"}});
  EXPECT_EQ(config.bos, std::optional<TokenId>(1));
  EXPECT_THAT(config.eos, IsEmpty());
}

TEST(ModelConfig, rotary_settings_are_read_in_every_spelling) {
  const FlatConfig oldest =
      parse({{"rope_theta", "500"}, {"rope_scaling", R"({"type":"linear","factor":2})"}});
  EXPECT_EQ(oldest.rope_scaling.kind, RopeScalingKind::linear);
  EXPECT_EQ(oldest.rope_scaling.factor, 2.0);
  EXPECT_EQ(oldest.rope_theta, 500.0);
  const FlatConfig newest =
      parse({{"rope_parameters", R"({"rope_type":"linear","factor":2.5,"rope_theta":7.5})"},
             {"rope_theta", "500"}});
  EXPECT_EQ(newest.rope_scaling.factor, 2.5);
  EXPECT_EQ(newest.rope_theta, 7.5);
  EXPECT_EQ(parse({{"rope_scaling", "{}"}, {"rope_parameters", R"({"rope_theta":5})"}}).rope_theta,
            5.0);
  EXPECT_EQ(parse({{"rope_scaling", "null"}}).rope_scaling.kind, RopeScalingKind::none);
}

TEST(ModelConfig, rope_scaling_outweighs_rope_parameters) {
  const FlatConfig config = parse({{"rope_scaling", R"({"type":"linear","factor":2})"},
                                   {"rope_parameters", R"({"rope_theta":7})"}});
  EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::linear);
  EXPECT_EQ(config.rope_theta, 10000.0);
}

constexpr const char* kLlama3 =
    R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4)";

TEST(ModelConfig, the_original_context_of_llama3_has_three_sources) {
  const std::string without = std::string(kLlama3) + "}";
  const std::string with = std::string(kLlama3) + R"(,"original_max_position_embeddings":32})";
  const auto original = [](const Keys& keys) {
    return parse(keys).rope_scaling.original_context_tokens;
  };
  EXPECT_EQ(original({{"rope_scaling", with}}), 32u);
  EXPECT_EQ(original({{"rope_scaling", without}}), 256u);
  EXPECT_EQ(original({{"rope_scaling", with}, {"original_max_position_embeddings", "48"}}), 48u);
}

TEST(ModelConfig, faulty_rotary_settings_are_refused) {
  EXPECT_THAT(
      refusal({{"rope_scaling", R"({"type":"axial","factor":2})"}}),
      HasSubstr("'rope_scaling.type': rope type 'axial' is not built; there are default, linear, "
                "dynamic, llama3, yarn, longrope"));
  EXPECT_THAT(refusal({{"rope_scaling", with_spelled_infinity("Infinity")}}),
              HasSubstr("'rope_scaling' is Infinity; expected an object"));
  EXPECT_THAT(refusal({{"rope_scaling", R"({"type":"linear"})"}}),
              HasSubstr("'rope_scaling.factor' is missing"));
  EXPECT_THAT(refusal({{"rope_scaling", R"({"type":"linear","factor":0})"}}),
              HasSubstr("'rope_scaling.factor' is 0; expected a number from 1e-6"));
  EXPECT_THAT(refusal({{"rope_scaling", R"({"rope_type":"llama3","factor":8})"}}),
              AllOf(HasSubstr("'rope_scaling.low_freq_factor' is missing"),
                    HasSubstr("'rope_scaling.high_freq_factor' is missing")));
  EXPECT_THAT(refusal({{"rope_scaling", R"({"rope_type":"llama3","factor":8,"low_freq_factor":4,
                                            "high_freq_factor":4})"}}),
              HasSubstr("'rope_scaling.high_freq_factor' must be above 'low_freq_factor'"));
  EXPECT_THAT(refusal({{"rope_theta", "-1"}}), HasSubstr("'rope_theta' is -1"));
  EXPECT_THAT(refusal({{"rope_scaling", "\"linear\""}}),
              HasSubstr("'rope_scaling' is \"linear\"; expected an object"));
  EXPECT_THAT(refusal({{"rope_parameters", R"({"full_attention":{"rope_theta":1}})"}}),
              HasSubstr("'rope_parameters.full_attention' is not built"));
}

// As in transformers, which computes whole heads for the plain type and fails with another.
TEST(ModelConfig, llama_overlooks_partial_rotation_where_its_reference_does) {
  EXPECT_EQ(plan_of({{"partial_rotary_factor", "0.5"}}).ropes[0].dim, 8u);
  EXPECT_EQ(plan_of({{"rope_parameters", R"({"partial_rotary_factor":0.5})"}}).ropes[0].dim, 8u);
  EXPECT_THAT(refusal({{"partial_rotary_factor", "0.5"},
                       {"rope_scaling", R"({"type":"linear","factor":2})"}}),
              HasSubstr("only whole heads (1.0) are rotated with rope type 'linear'"));
}

TEST(ModelConfig, other_arithmetic_is_refused_by_name) {
  EXPECT_THAT(refusal({{"hidden_act", "\"mish\""}}),
              HasSubstr("'hidden_act' is 'mish', which is not built; there are silu, gelu"));
  EXPECT_THAT(refusal({{"quantization_config", R"({"quant_method":"quip","bits":4})"}}),
              HasSubstr("quant_method' is 'quip'; weights are read of gptq, awq, "
                        "compressed-tensors, fp8, fbgemm_fp8, bitsandbytes, hqq, mxfp4, "
                        "modelopt and auto-round"));
  EXPECT_THAT(refusal({{"num_local_experts", "8"}}),
              HasSubstr("'num_local_experts' is 8; mixture of experts is not built"));
  EXPECT_THAT(refusal({{"final_logit_softcapping", "30.0"}}), HasSubstr("a soft cap on logits"));
  EXPECT_THAT(refusal({{"use_qk_norm", "true"}}), HasSubstr("another norm of q and k"));
}

TEST(ModelConfig, neutral_values_of_unsupported_keys_are_accepted) {
  parse({{"num_local_experts", "0"},
         {"final_logit_softcapping", "null"},
         {"use_qk_norm", "false"},
         {"residual_multiplier", "1.0"},
         {"hidden_act", "\"swish\""},
         {"pretraining_tp", "2"},
         {"partial_rotary_factor", "1.0"},
         {"anything_else", "{\"deep\":[1,{}]}"}});
}

TEST(ModelConfig, unsupported_and_wrong_have_different_codes) {
  const auto code = [](const Keys& keys) {
    return parse_model_config(config_text(keys), "c.json").status().code();
  };
  EXPECT_EQ(code({{"hidden_act", "\"mish\""}}), StatusCode::unsupported);
  EXPECT_EQ(code({{"hidden_size", "0"}}), StatusCode::invalid_argument);
  EXPECT_EQ(code({{"hidden_size", "0"}, {"hidden_act", "\"mish\""}}), StatusCode::invalid_argument);
}

TEST(ModelConfig, values_of_the_wrong_type_or_out_of_range_are_refused) {
  const std::string range = "; expected an integer from 1 to 2147483647";
  for (const std::string value : {"-4", "0", "2147483648", "18446744073709551616", "1e400", "4.5",
                                  "\"4\"", "[4]", "true", "NaN"}) {
    for (const std::string key : {"hidden_size", "num_attention_heads", "vocab_size"}) {
      EXPECT_THAT(refusal({{key, value}}), HasSubstr("c.json: "));
    }
  }
  EXPECT_EQ(parse({{"hidden_size", "32.0"}, {"vocab_size", "1e2"}}).hidden, 32u);
  EXPECT_EQ(refusal({{"hidden_size", "-4"}}), "c.json: 'hidden_size' is -4" + range);
  EXPECT_THAT(refusal({{"num_hidden_layers", "65536"}}), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(refusal({{"rms_norm_eps", "0"}}), HasSubstr("'rms_norm_eps' is 0"));
  EXPECT_THAT(refusal({{"rms_norm_eps", "1e-60"}}), HasSubstr("'rms_norm_eps' is 1e-60"));
  EXPECT_THAT(refusal({{"attention_bias", "1"}}),
              HasSubstr("'attention_bias' is 1; expected true or false"));
  EXPECT_THAT(refusal({{"tie_word_embeddings", "\"yes\""}}), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal({{"model_type", "5"}}), HasSubstr("'model_type' is 5; expected a text"));
}

TEST(ModelConfig, shapes_that_do_not_fit_together_are_refused) {
  EXPECT_THAT(refusal({{"num_key_value_heads", "3"}}),
              HasSubstr("'num_attention_heads' 8 is not a multiple of 'num_key_value_heads' 3"));
  EXPECT_THAT(refusal({{"hidden_size", "60"}}),
              HasSubstr("'hidden_size' 60 is not a multiple of 'num_attention_heads' 8"));
  EXPECT_THAT(refusal({{"head_dim", "7"}}), HasSubstr("head_dim 7 is odd"));
  EXPECT_THAT(refusal({{"head_dim", "1000000000"}}),
              HasSubstr("8 heads of 1000000000 are too wide"));
  EXPECT_EQ(parse({{"hidden_size", "60"}, {"head_dim", "16"}}).head_dim, 16u);
}

TEST(ModelConfig, several_faults_are_told_at_once) {
  const std::string message = refusal({{"hidden_size", "-1"}, {"hidden_act", "\"mish\""}});
  EXPECT_THAT(message, AllOf(HasSubstr("c.json:\n"), HasSubstr("'hidden_size' is -1"),
                             HasSubstr("'hidden_act' is 'mish'")));
}

TEST(ModelConfig, what_is_no_json_object_is_refused) {
  const auto message = [](const std::string& text) {
    return std::string(parse_model_config(text, "c.json").status().message());
  };
  EXPECT_THAT(message(""), HasSubstr("c.json: not valid JSON: a syntax error at byte"));
  EXPECT_THAT(message("[1]"), HasSubstr("c.json: found a list of 1; expected a JSON object"));
  EXPECT_THAT(message("{\"a\":1,\"a\":2}"), HasSubstr("the key 'a' stands twice"));
  EXPECT_THAT(message("{\"a\":1e999}"), HasSubstr("a number too large"));
  EXPECT_THAT(message("{\"a\":" + std::string(100000, '[')), HasSubstr("deeper than 32"));
  EXPECT_THAT(message("{\"\xc3\x28\":1}"), HasSubstr("a syntax error"));
}

TEST(ModelConfig, no_mutation_of_a_config_gives_an_impossible_model) {
  const std::string whole = config_text({{"rope_scaling", std::string(kLlama3) + "}"},
                                         {"eos_token_id", "[1,2]"},
                                         {"rms_norm_eps", "1e-5"}});
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (uint64_t change = 0; change <= random() % 3; ++change) {
      char& byte = text[random() % text.size()];
      byte = random() % 2 ? static_cast<char>(byte ^ (1 << random() % 8))
                          : "0123456789,[]{}\"-e."[random() % 19];
    }
    const auto config = parse_model_config(text, "c.json");
    if (!config.ok()) continue;
    const SelfAttentionPlan& attention = config->layers.at(0).attention;
    ASSERT_EQ(attention.heads % attention.kv_heads, 0u) << text;
    for (const float frequency : test::first_frequencies(*config)) {
      ASSERT_TRUE(std::isfinite(frequency)) << text;
    }
  }
}

// Expected values: transformers' LlamaRotaryEmbedding.
TEST(RopeFrequencies, llama3_scaling_keeps_blends_and_stretches) {
  RopePlan rope;
  rope.dim = 64;
  rope.theta = 500000.0;
  rope.scaling.kind = RopeScalingKind::llama3;
  rope.scaling.factor = 32.0;
  rope.scaling.original_context_tokens = 8192;
  const std::vector<float> found = rope_frequencies(rope, 131072);
  ASSERT_EQ(found.size(), 32u);
  const std::map<size_t, float> expected = {{0, 1.0f},
                                            {1, 0.663601279f},
                                            {8, 0.0376060307f},
                                            {14, 0.00321144611f},
                                            {15, 0.00129054801f},
                                            {16, 0.000429556705f},
                                            {17, 9.70828623e-05f},
                                            {18, 1.94616387e-05f},
                                            {31, 9.41830649e-08f}};
  for (const auto& [index, value] : expected) EXPECT_NEAR(found[index] / value, 1.0, 1e-6) << index;
}

TEST(RopeFrequencies, linear_scaling_divides) {
  RopePlan rope;
  rope.dim = 64;
  rope.scaling.kind = RopeScalingKind::linear;
  rope.scaling.factor = 2.5;
  const std::vector<float> found = rope_frequencies(rope, 4096);
  EXPECT_FLOAT_EQ(found[0], 0.4f);
  EXPECT_FLOAT_EQ(found[1], 0.299957693f);
  EXPECT_FLOAT_EQ(found[31], 5.33408602e-05f);
}

TEST(ModelShape, layers_with_one_window_make_a_group_with_that_window) {
  const ModelPlan plan = plan_of({{"model_type", "\"mistral\""}, {"sliding_window", "9"}});
  const ModelShapeStorage storage(plan, 1000);
  const ModelShape& shape = storage.shape();
  EXPECT_EQ(shape.context_tokens, 256u);
  EXPECT_EQ(shape.vocabulary, 100u);
  ASSERT_EQ(shape.group_count, 1u);
  EXPECT_EQ(shape.groups[0].layers, 4u);
  EXPECT_EQ(shape.groups[0].kv_heads, 2u);
  EXPECT_EQ(shape.groups[0].k_dim, 8u);
  EXPECT_EQ(shape.groups[0].window_tokens, 9u);
  EXPECT_EQ(shape.layers[3].index_in_group, 3u);
  EXPECT_EQ(shape.layers[3].query_heads, 8u);
  EXPECT_FLOAT_EQ(shape.layers[3].scale, 0.353553391f);
}

TEST(ModelShape, layers_of_different_windows_make_a_group_each) {
  FlatConfig config = parse({{"model_type", "\"qwen2\""},
                             {"use_sliding_window", "true"},
                             {"sliding_window", "9"},
                             {"max_window_layers", "2"}});
  config.window_tokens = {9, 0, 9, 0};
  const ModelShapeStorage storage(config.plan(), 100);
  const ModelShape& shape = storage.shape();
  EXPECT_EQ(shape.context_tokens, 100u);
  ASSERT_EQ(shape.group_count, 2u);
  EXPECT_EQ(shape.groups[0].window_tokens, 9u);
  EXPECT_EQ(shape.groups[1].window_tokens, 0u);
  EXPECT_EQ(shape.ledger_group, 1u) << "the first that keeps every token";
  EXPECT_EQ(shape.groups[0].layers, 2u);
  EXPECT_EQ(shape.groups[1].layers, 2u);
  ASSERT_EQ(shape.layer_count, 4u);
  for (LayerId layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(shape.layers[layer].group, layer % 2) << layer;
    EXPECT_EQ(shape.layers[layer].index_in_group, layer / 2) << layer;
  }
}

TEST(ModelShape, a_second_models_groups_and_layers_stand_behind_the_first_ones) {
  FlatConfig config = parse({});
  const ModelShapeStorage target(config.plan(), 100);
  config.window_tokens = {9, 9, 0, 0};
  const ModelShapeStorage draft(config.plan(), 100);
  const ModelShapeStorage both(target.shape(), draft.shape());
  const ModelShape& shape = both.shape();
  ASSERT_EQ(shape.group_count, 3u);
  ASSERT_EQ(shape.layer_count, 8u);
  EXPECT_EQ(shape.groups[0].owner, KvOwner::target);
  EXPECT_EQ(shape.groups[1].owner, KvOwner::draft);
  EXPECT_EQ(shape.groups[1].window_tokens, 0u) << "its layers read what others made of all";
  EXPECT_EQ(shape.layers[5].group, 1u);
  EXPECT_EQ(shape.layers[6].group, 2u);
  EXPECT_EQ(shape.layers[6].index_in_group, 0u);
}

TEST(ModelShape, a_draft_of_one_layer_keeps_an_entry_more_than_its_window) {
  FlatConfig config = parse({});
  const ModelShapeStorage target(config.plan(), 100);
  FlatConfig one = parse({{"num_hidden_layers", "1"}});
  one.window_tokens = {9};
  const ModelShapeStorage draft(one.plan(), 100);
  const ModelShapeStorage both(target.shape(), draft.shape());
  ASSERT_EQ(both.shape().group_count, 2u);
  EXPECT_EQ(both.shape().groups[1].window_tokens, 10u);
}

}  // namespace
}  // namespace tenon
