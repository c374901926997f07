// The folders that transformers wrote (tests/golden/make_model_goldens.py) are read as it meant
// them. Executors compare their logits with the goldens elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/files/mapped_file.h"
#include "core/files/npy.h"
#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/models/flat_config.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Not;
using testing::SizeIs;

const char* const kCases[] = {"llama_gqa",
                              "llama_mha",
                              "llama_tied",
                              "llama_head_dim",
                              "llama_rope_llama3",
                              "llama_rope_linear",
                              "llama_rope_llama3_new",
                              "llama_biases",
                              "mistral_window",
                              "mistral_no_window",
                              "qwen2",
                              "qwen2_sliding_layers",
                              "qwen3",
                              "qwen3_biases",
                              "llama_bf16",
                              "llama_f16",
                              "llama_mixed",
                              "llama_sharded"};

std::string path_of(const std::string& name) {
  return golden_models() + name;
}

std::unique_ptr<Model> open_golden(const std::string& name) {
  Result<std::unique_ptr<Model>> model = open_model(path_of(name));
  if (!model.ok()) ADD_FAILURE() << model.status().message();
  return model.ok() ? *std::move(model) : std::make_unique<Model>();
}

TEST(GoldenFolders, the_head_of_gpt_neox_has_a_newer_name_too) {
  const std::string golden = path_of("gpt_neox/");
  std::string file = *read_text_file(golden + "model.safetensors", uint64_t{1} << 20);
  const std::string older = R"("embed_out.weight")", newer = R"("lm_head.weight"  )";
  const size_t at = file.find(older);
  ASSERT_NE(at, std::string::npos);
  file.replace(at, older.size(), newer);
  const TemporaryFolder folder;
  folder.write_file("config.json", *read_text_file(golden + "config.json"));
  folder.write_file("model.safetensors", file);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->head.name, "lm_head.weight");
}

TEST(GoldenFolders, every_folder_opens_and_fits_its_tokens_and_logits) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const auto model = open_golden(name);
    const auto tokens = read_npy_i32(path_of(name) + "/tokens.npy");
    const auto logits = read_npy_f32(path_of(name) + "/logits.npy");
    ASSERT_TRUE(tokens.ok() && logits.ok());
    EXPECT_THAT(logits->shape, ElementsAre(tokens->values.size(), model->plan.vocabulary));
    EXPECT_THAT(model->layers, SizeIs(test::flat(model->plan).layers));
    EXPECT_THAT(model->layers.front().attention_norm, Each(Not(1.0f)));
  }
}

TEST(GoldenFolders, head_counts_and_widths_are_read) {
  const auto gqa = open_golden("llama_gqa");
  EXPECT_EQ(test::flat(gqa->plan).heads, 4u);
  EXPECT_EQ(test::flat(gqa->plan).kv_heads, 2u);
  EXPECT_EQ(test::flat(gqa->plan).head_dim, 8u);
  EXPECT_EQ(test::flat(gqa->plan).intermediate, 72u);
  EXPECT_EQ(test::flat(open_golden("llama_mha")->plan).kv_heads, 4u);
  const auto wide = open_golden("llama_head_dim");
  EXPECT_EQ(test::flat(wide->plan).head_dim, 24u);
  EXPECT_EQ(wide->layers[0].q.n_out, 96u);
  EXPECT_EQ(wide->layers[0].output.k_in, 96u);
}

TEST(GoldenFolders, tied_and_several_end_tokens_are_read) {
  const auto model = open_golden("llama_tied");
  EXPECT_TRUE(model->plan.tied_embeddings);
  EXPECT_THAT(model->plan.eos, ElementsAre(2, 5));
  EXPECT_THAT(model->generation.eos, ElementsAre(2, 5));
}

TEST(GoldenFolders, rotary_scaling_is_read_in_each_spelling) {
  for (const std::string name : {"llama_rope_llama3", "llama_rope_llama3_new"}) {
    SCOPED_TRACE(name);
    const test::FlatConfig config = test::flat(open_golden(name)->plan);
    EXPECT_EQ(config.rope_scaling.kind, RopeScalingKind::llama3);
    EXPECT_EQ(config.rope_scaling.factor, 4.0);
    EXPECT_EQ(config.rope_scaling.original_context_tokens, 32u);
    EXPECT_EQ(config.rope_theta, 10000.0);
  }
  const test::FlatConfig linear = test::flat(open_golden("llama_rope_linear")->plan);
  EXPECT_EQ(linear.rope_scaling.kind, RopeScalingKind::linear);
  EXPECT_EQ(linear.rope_scaling.factor, 3.0);
  EXPECT_EQ(linear.rope_theta, 500.0);
}

TEST(GoldenFolders, biases_are_where_the_architecture_has_them) {
  const auto llama = open_golden("llama_biases");
  EXPECT_THAT(llama->layers[0].q_bias, SizeIs(32));
  EXPECT_THAT(llama->layers[0].output_bias, SizeIs(32));
  EXPECT_THAT(llama->layers[0].up_bias, SizeIs(72));
  EXPECT_THAT(llama->layers[0].down_bias, SizeIs(32));
  const auto qwen2 = open_golden("qwen2");
  EXPECT_THAT(qwen2->layers[0].k_bias, SizeIs(16));
  EXPECT_THAT(qwen2->layers[0].output_bias, SizeIs(0));
  EXPECT_THAT(open_golden("qwen3_biases")->layers[1].output_bias, SizeIs(32));
}

TEST(GoldenFolders, windows_are_read_per_layer) {
  EXPECT_THAT(test::flat(open_golden("mistral_window")->plan).window_tokens, ElementsAre(7, 7));
  EXPECT_THAT(test::flat(open_golden("mistral_no_window")->plan).window_tokens, ElementsAre(0, 0));
  EXPECT_THAT(test::flat(open_golden("qwen2_sliding_layers")->plan).window_tokens,
              ElementsAre(0, 9, 9));
  EXPECT_THAT(test::flat(open_golden("qwen2")->plan).window_tokens, ElementsAre(0, 0));
}

TEST(GoldenFolders, qwen3_has_norms_of_q_and_k) {
  const auto model = open_golden("qwen3");
  EXPECT_TRUE(test::flat(model->plan).qk_norm);
  EXPECT_THAT(model->layers[0].q_norm, SizeIs(16));
  EXPECT_THAT(model->layers[1].k_norm, SizeIs(16));
}

TEST(GoldenFolders, element_types_are_those_of_the_files) {
  EXPECT_EQ(open_golden("llama_bf16")->layers[0].q.format, "bf16");
  EXPECT_EQ(open_golden("llama_f16")->layers[0].q.format, "f16");
  const auto mixed = open_golden("llama_mixed");
  EXPECT_EQ(mixed->head.format, "bf16");
  EXPECT_LT(mixed->weight_bytes(), 4 * mixed->parameter_count());
  EXPECT_GT(mixed->weight_bytes(), 2 * mixed->parameter_count());
}

}  // namespace
}  // namespace tenon
