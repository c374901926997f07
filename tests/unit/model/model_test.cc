#include "core/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/folders.h"
#include "tests/support/models/flat_config.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::unique_ptr<Model> open_or_fail(const std::string& folder) {
  Result<std::unique_ptr<Model>> model = open_model(folder);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

std::string refusal(const std::string& folder) {
  const Result<std::unique_ptr<Model>> model = open_model(folder);
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

TEST(Model, the_bundled_demo_model_opens_with_its_shape) {
  const auto model = open_or_fail(source_folder() + "/configs/models/tale");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->plan.architecture, "llama");
  EXPECT_EQ(model->plan.hidden, 256u);
  EXPECT_EQ(test::flat(model->plan).kv_heads, 2u);
  EXPECT_TRUE(model->plan.tied_embeddings);
  EXPECT_EQ(model->plan.eos, std::vector<TokenId>{4092});
  EXPECT_FALSE(model->plan.bos.has_value());
  EXPECT_THAT(model->layers, SizeIs(6));
  EXPECT_EQ(model->embedding.format, "bf16");
  EXPECT_EQ(model->embedding.n_out, 4096u);
  EXPECT_EQ(model->head.parts[0].data, model->embedding.parts[0].data);
  EXPECT_EQ(model->generation.value("temperature"), 0.6);
  EXPECT_EQ(model->weight_bytes(), 2 * model->parameter_count());
}

TEST(Model, a_written_model_has_every_weight_at_its_place) {
  ModelFolder folder;
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  const TensorView& q = model->layers[1].q.parts[0];
  float first = 0;
  std::memcpy(&first, q.data, sizeof(first));
  EXPECT_EQ(first, folder.tensors.at("model.layers.1.self_attn.q_proj.weight").values[0]);
  EXPECT_EQ(model->layers[0].mlp_norm,
            folder.tensors.at("model.layers.0.post_attention_layernorm.weight").values);
  EXPECT_EQ(model->final_norm, folder.tensors.at("model.norm.weight").values);
  EXPECT_EQ(model->layers[1].down.n_out, 8u);
  EXPECT_EQ(model->layers[1].down.k_in, 12u);
}

TEST(Model, each_weight_keeps_its_own_element_type_and_vectors_are_widened) {
  ModelFolder folder;
  folder.tensors.at("model.layers.0.self_attn.q_proj.weight").dtype = DType::bf16;
  folder.tensors.at("model.layers.0.self_attn.k_proj.weight").dtype = DType::f16;
  folder.tensors.at("model.norm.weight") = {DType::bf16, {8}, {1, 2, 3, 4, 5, 6, 7, -0.5f}};
  folder.tensors.at("model.layers.0.input_layernorm.weight") = {
      DType::f16, {8}, {1, 2, 3, 4, 5, 6, 7, -0.25f}};
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->layers[0].q.format, "bf16");
  EXPECT_EQ(model->layers[0].k.format, "f16");
  EXPECT_EQ(model->layers[0].v.format, "f32");
  EXPECT_EQ(model->final_norm.back(), -0.5f);
  EXPECT_EQ(model->layers[0].attention_norm.back(), -0.25f);
}

TEST(Model, an_untied_head_is_a_tensor_of_its_own) {
  ModelFolder folder;
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_NE(model->head.parts[0].data, model->embedding.parts[0].data);
}

TEST(Model, an_untied_model_without_a_head_is_refused_by_name) {
  ModelFolder folder;
  folder.tensors.erase("lm_head.weight");
  folder.write();
  EXPECT_THAT(refusal(folder.path()),
              HasSubstr("tensor 'lm_head.weight' is missing; expected [16, 8]"));
}

TEST(Model, a_tied_model_needs_no_head) {
  ModelFolder folder;
  folder.config["tie_word_embeddings"] = "true";
  folder.tensors.erase("lm_head.weight");
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->head.parts[0].data, model->embedding.parts[0].data);
}

TEST(Model, a_tied_model_with_an_equal_head_stays_tied) {
  ModelFolder folder;
  folder.config["tie_word_embeddings"] = "true";
  folder.tensors.at("lm_head.weight") = folder.tensors.at("model.embed_tokens.weight");
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(model->plan.tied_embeddings);
  EXPECT_EQ(model->head.name, "model.embed_tokens.weight");
}

TEST(Model, a_tied_model_with_a_different_head_uses_that_head) {
  ModelFolder folder;
  folder.config["tie_word_embeddings"] = "true";
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->plan.tied_embeddings);
  EXPECT_EQ(model->head.name, "lm_head.weight");
}

TEST(Model, a_tied_model_stored_by_its_head_alone_embeds_with_it) {
  ModelFolder folder;
  folder.config["tie_word_embeddings"] = "true";
  folder.tensors.erase("model.embed_tokens.weight");
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->embedding.name, "lm_head.weight");
  EXPECT_TRUE(model->plan.tied_embeddings);
}

TEST(Model, a_bare_base_model_has_no_prefix) {
  ModelFolder folder;
  folder.config["tie_word_embeddings"] = "true";
  folder.config["architectures"] = "[\"LlamaModel\"]";
  std::map<std::string, StoredTensor> bare;
  for (auto& [name, tensor] : folder.tensors) {
    if (name.starts_with("model.")) bare[name.substr(6)] = tensor;
  }
  folder.tensors = bare;
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->layers[0].q.name, "layers.0.self_attn.q_proj.weight");
}

TEST(Model, faulty_tensors_are_named_together) {
  ModelFolder folder;
  folder.tensors.erase("model.layers.1.mlp.up_proj.weight");
  folder.tensors.at("model.layers.0.self_attn.k_proj.weight").shape = {8, 4};
  folder.write();
  const std::string message = refusal(folder.path());
  EXPECT_THAT(message, HasSubstr("tensor 'model.layers.0.self_attn.k_proj.weight' is [8, 4]; "
                                 "config.json makes it [4, 8]"));
  EXPECT_THAT(message, HasSubstr("tensor 'model.layers.1.mlp.up_proj.weight' is missing"));
}

TEST(Model, a_bias_that_the_config_does_not_announce_is_refused) {
  ModelFolder folder;
  folder.tensors["model.layers.0.self_attn.q_proj.bias"] = {DType::f32, {8}, std::vector(8, 1.f)};
  folder.write();
  EXPECT_THAT(refusal(folder.path()),
              HasSubstr("tensor 'model.layers.0.self_attn.q_proj.bias' has no place in the model"));
}

TEST(Model, stored_rotary_frequencies_and_layers_beyond_the_last_are_ignored) {
  ModelFolder folder;
  const StoredTensor extra{DType::f32, {2}, {1, 2}};
  folder.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = extra;
  folder.tensors["model.layers.2.self_attn.q_proj.weight"] = extra;
  folder.tensors["visual.stem"] = extra;
  folder.write();
  EXPECT_NE(open_or_fail(folder.path()), nullptr);
}

TEST(Model, an_integer_weight_is_refused) {
  ModelFolder folder;
  folder.tensors.at("model.layers.0.mlp.up_proj.weight").dtype = DType::i8;
  folder.write();
  EXPECT_THAT(refusal(folder.path()), HasSubstr("has element type i8; expected f32, f16 or bf16"));
}

TEST(Model, generation_defaults_are_read_and_their_ids_checked) {
  ModelFolder folder;
  folder.write();
  folder.write_file("generation_config.json", R"({"eos_token_id": [2, 16], "top_k": 5})");
  const auto smaller = open_or_fail(folder.path());
  ASSERT_NE(smaller, nullptr);
  EXPECT_EQ(smaller->generation.eos, (std::vector<TokenId>{2}));
  folder.write_file("generation_config.json", R"({"eos_token_id": [2, 15], "top_k": 5})");
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->generation.eos, (std::vector<TokenId>{2, 15}));
  EXPECT_EQ(model->generation.value("top_k"), 5);
}

TEST(Model, a_text_ends_with_what_any_of_its_files_names) {
  ModelFolder folder;
  folder.config["eos_token_id"] = "3";
  folder.write();
  folder.write_file("generation_config.json", R"({"eos_token_id": [5, 3]})");
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(end_tokens(model->ends), (std::vector<TokenId>{3, 5}));
  EXPECT_THAT(model->ends[0].named_by, ElementsAre("config.json", "generation_config.json"));
  EXPECT_THAT(model->ends[1].named_by, ElementsAre("generation_config.json"));
}

TEST(Model, tokens_that_are_recommended_against_are_ids_of_the_model) {
  ModelFolder folder;
  folder.write();
  folder.write_file("generation_config.json", R"({"bad_words_ids": [[16]]})");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("'bad_words_ids' is 16; the vocabulary has 16"));
}

TEST(Model, a_folder_without_a_config_names_the_file) {
  EXPECT_THAT(refusal("no-such-folder"), HasSubstr("no-such-folder/config.json"));
}

TEST(Model, a_folder_that_holds_something_else_says_what_to_name) {
  ModelFolder files;
  for (const char* name : {"b.gguf", "a-00001-of-00002.gguf", "README.md"}) {
    files.write_file(name, "");
  }
  EXPECT_THAT(refusal(files.path()), HasSubstr("has no config.json, but GGUF files: "
                                               "'a-00001-of-00002.gguf', 'b.gguf' – name one"));
  ModelFolder adapter;
  adapter.write_file("adapter_config.json", "{}");
  EXPECT_THAT(refusal(adapter.path()), HasSubstr("it is an adapter"));
  ModelFolder outer;
  std::filesystem::create_directory(outer.path() + "/inner");
  outer.write_file("inner/config.json", "{}");
  EXPECT_THAT(refusal(outer.path()), HasSubstr("but the folder 'inner' in it has – name that one"));
  ModelFolder shards;
  shards.write_file("config.json", shards.config_text());
  shards.write_file("model-00001-of-00002.safetensors", "");
  EXPECT_THAT(refusal(shards.path()),
              HasSubstr("but 'model-00001-of-00002.safetensors' – fetch the index"));
  EXPECT_THAT(refusal(shards.path() + "/config.json"), HasSubstr("name the folder"));
}

TEST(Model, a_folder_without_weights_says_which_files_were_looked_for) {
  ModelFolder folder;
  folder.write_file("config.json", folder.config_text());
  EXPECT_THAT(refusal(folder.path()),
              HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

TEST(Model, parameters_and_bytes_count_each_tensor_once) {
  ModelFolder folder;
  folder.write();
  const auto model = open_or_fail(folder.path());
  ASSERT_NE(model, nullptr);
  uint64_t parameters = 0;
  for (const auto& [name, tensor] : folder.tensors) parameters += tensor.values.size();
  EXPECT_EQ(model->parameter_count(), parameters);
  EXPECT_EQ(model->weight_bytes(), 4 * parameters);
}

}  // namespace
}  // namespace tenon
