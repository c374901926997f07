// Models of text and images run their text part. That its logits are right is the goldens' to show.
#include "core/model/config/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/files/mapped_file.h"
#include "core/model/config/model_config.h"
#include "core/model/convert/convert.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/support/folders.h"
#include "tests/support/models/model_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::string kGoldens = golden_models();

std::unique_ptr<Model> open_or_fail(const std::string& path) {
  auto model = open_model(path);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

TEST(TextPart, the_plan_is_that_of_the_text_model_and_names_the_whole) {
  const ModelPlan plan = plan_of(R"({"model_type":"llava","text_config":
      {"model_type":"mistral","hidden_size":64,"num_hidden_layers":3,"my_key":1}})");
  EXPECT_EQ(plan.architecture, "mistral");
  EXPECT_EQ(plan.text_part_of, "llava");
  EXPECT_EQ(plan.hidden, 64u);
  EXPECT_EQ(plan.layers.size(), 3u);
  EXPECT_THAT(plan.ignored_keys, testing::ElementsAre("my_key"));
}

TEST(TextPart, keys_that_are_missing_are_those_of_the_whole_and_not_of_the_family_by_itself) {
  for (const std::string whole : {"qwen2_vl", "qwen2_5_vl"}) {
    SCOPED_TRACE(whole);
    const ModelPlan plan = plan_of(R"({"model_type":")" + whole + R"(","text_config":
        {"hidden_size":128,"num_hidden_layers":2,"use_sliding_window":true,
         "rope_scaling":{"type":"mrope","mrope_section":[1,1,1]}}})");
    EXPECT_EQ(plan.final_norm.eps, 1e-5f);
    EXPECT_EQ(plan.ropes[0].theta, 1e6);
    EXPECT_EQ(plan.layers[0].attention.heads, 64u);
    EXPECT_EQ(plan.layers[0].attention.kv_heads, 8u);
  }
  const ModelPlan plan = plan_of(R"({"model_type":"qwen3_vl","text_config":{"hidden_size":64}})");
  EXPECT_EQ(plan.ropes[0].theta, 5e5);
  EXPECT_EQ(plan.context_tokens, 128000u);
  const ModelPlan alone = plan_of(R"({"model_type":"qwen3","hidden_size":64})");
  EXPECT_EQ(alone.ropes[0].theta, 1e4);
}

// What transformers 5 makes of the flag of the whole and of the text model's, each missing, false
// or true.
TEST(TextPart, each_family_says_which_flag_ties_embeddings) {
  const auto tied = [](const std::string& family, const std::string& outer,
                       const std::string& inner) {
    const auto flag = [](const std::string& value) {
      return value.empty() ? value : R"("tie_word_embeddings":)" + value;
    };
    const std::string inside = flag(inner), outside = outer.empty() ? "" : "," + flag(outer);
    return plan_of(R"({"model_type":")" + family + R"(","text_config":{)" + inside + "}" + outside +
                   "}")
        .tied_embeddings;
  };
  for (const std::string inner : {"", "null", "false", "true"}) {
    SCOPED_TRACE(inner);
    for (const std::string outer : {"", "null", "false", "true"}) {
      SCOPED_TRACE(outer);
      const bool said = outer == "true" || outer == "false";
      for (const std::string family :
           {"gemma3", "mistral3", "kimi_k25", "aya_vision", "cohere2_vision", "got_ocr2",
            "internvl", "lighton_ocr", "ovis2"}) {
        EXPECT_EQ(tied(family, outer, inner), said ? outer == "true" : true) << family;
      }
      for (const std::string family :
           {"qwen3_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl_moe", "exaone4_5", "idefics3",
            "minicpmv4_6", "minicpmv4_7", "smolvlm", "vipllava"}) {
        EXPECT_EQ(tied(family, outer, inner), outer == "true") << family;
      }
      for (const std::string family : {"llava", "llava_next", "llava_next_video", "llava_onevision",
                                       "qwen2_vl", "qwen2_5_vl"}) {
        EXPECT_EQ(tied(family, outer, inner), outer == "true" || inner == "true") << family;
      }
      EXPECT_EQ(tied("llama4", outer, inner), inner == "true");
    }
  }
}

// Mistral 3 as published: nothing is said outside, false inside, and there is a head of its own.
TEST(TextPart, a_head_of_its_own_is_used_whatever_is_said_of_ties) {
  const TemporaryFolder folder;
  const auto golden = open_or_fail(kGoldens + "llava");
  ASSERT_NE(golden, nullptr);
  ASSERT_FALSE(golden->plan.tied_embeddings);
  nlohmann::json config = nlohmann::json::parse(*read_text_file(kGoldens + "llava/config.json"));
  config["model_type"] = "mistral3";
  config["architectures"] = {"Mistral3ForConditionalGeneration"};
  config.erase("tie_word_embeddings");
  config["text_config"]["tie_word_embeddings"] = false;
  folder.write_file("config.json", config.dump());
  folder.write_file("model.safetensors",
                    *read_text_file(kGoldens + "llava/model.safetensors", uint64_t{1} << 24));
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->plan.tied_embeddings);
  EXPECT_EQ(model->head.name, golden->head.name);
}

TEST(TextPart, gemma_3_caps_no_logits_as_a_part_of_a_model_of_images) {
  constexpr const char* kCap = R"("final_logit_softcapping":5.0})";
  const std::string alone = std::string(R"({"model_type":"gemma3_text",)") + kCap;
  EXPECT_EQ(plan_of(alone).logit_soft_cap, 5.0f);
  const std::string whole = std::string(R"({"model_type":"gemma3","text_config":{)") + kCap + "}";
  EXPECT_EQ(plan_of(whole).logit_soft_cap, 0.0f);
}

// transformers calls the text model without its head there.
TEST(TextPart, factors_and_caps_of_a_text_model_s_logits_count_for_nothing_next_to_a_whole_s_head) {
  const auto of = [](const std::string& whole, const std::string& text) {
    return plan_of(R"({"model_type":")" + whole + R"(","text_config":)" + text + "}");
  };
  for (const std::string whole : {"llava", "llava_next", "mistral3", "lfm2_vl"}) {
    SCOPED_TRACE(whole);
    const std::string granite = R"({"model_type":"granite","logits_scaling":8.0})";
    EXPECT_EQ(plan_of(granite).logit_scale, 0.125f);
    EXPECT_EQ(of(whole, granite).logit_scale, 1.0f);
    EXPECT_EQ(of(whole, R"({"model_type":"cohere"})").logit_scale, 1.0f);
    EXPECT_EQ(of(whole, R"({"logit_scale":0.3})").logit_scale, 1.0f);
    EXPECT_EQ(of(whole, R"({"model_type":"gemma2"})").logit_soft_cap, 0.0f);
  }
  for (const std::string whole : {"gemma4", "gemma4_unified"}) {
    EXPECT_EQ(of(whole, R"({"final_logit_softcapping":30.0})").logit_soft_cap, 30.0f) << whole;
  }
}

// As it is written by `model convert` and `model quantize`, where nothing tells of the whole.
TEST(TextPart, the_config_of_the_text_model_by_itself_has_no_factors_and_caps_either) {
  for (const std::string whole : {"llava", "aya_vision"}) {
    for (const std::string family : {"cohere", "cohere2", "cohere2_moe", "gemma2", "vaultgemma",
                                     "nanochat", "granite", "falcon_h1", "llama"}) {
      Faults faults;
      const nlohmann::json text = {{"model_type", family}, {"head_dim", 64}};
      const nlohmann::json config = {{"model_type", whole}, {"text_config", text}};
      const TextPart part = find_text_part(config, faults);
      ASSERT_FALSE(faults.any());
      const ModelPlan plan = plan_of(part.config.dump());
      EXPECT_EQ(plan.logit_scale, 1.0f) << family;
      EXPECT_EQ(plan.logit_soft_cap, 0.0f) << family;
    }
  }
}

TEST(TextPart, axes_of_positions_are_one_for_text) {
  const ModelPlan plan = plan_of(R"({"model_type":"qwen2_vl","hidden_size":64,"rope_theta":5e5,
      "num_attention_heads":4,"num_key_value_heads":2,"vision_config":{"depth":2},
      "rope_scaling":{"type":"mrope","mrope_section":[2,3,3]}})");
  EXPECT_EQ(plan.architecture, "qwen2");
  EXPECT_EQ(plan.ropes.at(0).theta, 5e5);
  EXPECT_EQ(plan.ropes.at(0).scaling.kind, RopeScalingKind::none);
  EXPECT_THAT(refusal(R"({"model_type":"qwen2","rope_scaling":{"mrope_section":[2,3,3]}})"),
              HasSubstr("'rope_scaling.mrope_section' is not built"));
}

TEST(TextPart, what_is_not_built_is_refused_by_name) {
  EXPECT_THAT(
      refusal(R"({"model_type":"llava","text_config":{"model_type":"opt"}})"),
      HasSubstr("'text_config.model_type' is 'opt', which is not built; the nearest family that "
                "runs is 'gpt2', but this is another: its positions begin at the third"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma3","architectures":["Gemma3ForTokenClassification"],
                          "text_config":{}})"),
              HasSubstr("is not built for model_type 'gemma3'; expected "
                        "'Gemma3ForConditionalGeneration'"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma3","text_config":[1]})"),
              HasSubstr("'text_config' is a list of 1; expected an object"));
  EXPECT_THAT(refusal(R"({"model_type":"llava","text_config":{"hidden_size":-1}})"),
              HasSubstr("'text_config.hidden_size' is -1"));
}

TEST(TextPart, one_config_says_how_weights_are_quantised) {
  const std::string how = R"("quantization_config":{"quant_method":"gptq","bits":4})";
  const std::string whole = R"({"model_type":"llava",)" + how + R"(,"text_config":)";
  EXPECT_EQ(plan_of(whole + R"({"model_type":"llama",)" + how + "}}").text_part_of, "llava");
  EXPECT_EQ(plan_of(whole + R"({"quantization_config":null}})").text_part_of, "llava");
  EXPECT_THAT(refusal(whole + R"({"quantization_config":{"quant_method":"gptq","bits":8}}})"),
              HasSubstr("'quantization_config' and 'text_config.quantization_config' are not the "
                        "same; expected one"));
}

TEST(TextPart, tensors_of_other_parts_are_counted_and_left_alone) {
  const auto model = open_or_fail(kGoldens + "gemma3_vision");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->other_tensors, 34u);
  EXPECT_EQ(model->embedding.name, "language_model.model.embed_tokens.weight");
  for (const std::string& name : model->checkpoint->names()) {
    EXPECT_THAT(name, testing::StartsWith("model."));
  }
}

TEST(TextPart, tensors_are_found_under_the_names_of_newer_files) {
  const auto expected = open_or_fail(kGoldens + "llava");
  ASSERT_NE(expected, nullptr);
  const TemporaryFolder folder;
  std::map<std::string, StoredTensor> tensors;
  for (const std::string& name : expected->checkpoint->names()) {
    const TensorView& view = *expected->checkpoint->find(name);
    const bool head = name.starts_with("lm_head.");
    StoredTensor& tensor = tensors[head ? name : "model.language_model" + name.substr(5)];
    tensor.shape.assign(view.shape, view.shape + view.rank);
    for (uint64_t i = 0; i < element_count(view); ++i) tensor.values.push_back(element(view, i));
  }
  tensors["model.vision_tower.embeddings.weight"] = {DType::f32, {1}, {1.0f}};
  folder.write_file("config.json", *read_text_file(kGoldens + "llava/config.json"));
  folder.write_file("model.safetensors", safetensors_file(tensors));
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->other_tensors, 1u);
  EXPECT_EQ(model->layers[1].mlp_norm, expected->layers[1].mlp_norm);
  EXPECT_EQ(model->parameter_count(), expected->parameter_count());
}

TEST(TextPart, a_folder_that_is_written_has_the_text_model_alone) {
  const auto whole = open_or_fail(kGoldens + "gemma3_vision");
  ASSERT_NE(whole, nullptr);
  const TemporaryFolder out;
  const Status written = write_folder_model(*whole, out.path("text"), {});
  ASSERT_TRUE(written.ok()) << written.message();
  const auto text = open_or_fail(out.path("text"));
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(text->plan.text_part_of, "");
  EXPECT_EQ(text->plan.architecture, "gemma3_text");
  EXPECT_TRUE(text->plan.layers == whole->plan.layers);
  EXPECT_EQ(text->other_tensors, 0u);
}

}  // namespace
}  // namespace tenon
