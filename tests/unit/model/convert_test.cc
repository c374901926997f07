#include "core/model/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "core/model/families/family.h"
#include "core/model/plan/plan_difference.h"
#include "core/model/tensors/model_tensors.h"
#include "tests/support/folders.h"
#include "tests/support/models/flat_config.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGoldens = golden_models();

std::unique_ptr<Model> open_or_fail(const std::string& path) {
  auto model = open_model(path);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

void expect_same_config(const ModelPlan& one, const ModelPlan& other) {
  const test::FlatConfig a = test::flat(one), b = test::flat(other);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.context_tokens, b.context_tokens);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.window_tokens, b.window_tokens);
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.output_bias, b.output_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
}

void expect_same_place(const ConstTensorPlace& a, const ConstTensorPlace& b) {
  if (a.vector != nullptr) {
    EXPECT_EQ(*a.vector, *b.vector);
    return;
  }
  const Weight &x = *a.matrix, &y = *b.matrix;
  ASSERT_EQ(x.format, y.format);
  ASSERT_EQ(x.n_out, y.n_out);
  std::vector<std::byte> one(x.k_in * 4), other(x.k_in * 4);
  for (uint32_t row = 0; row < x.n_out; ++row) {
    store_row(x, row, type_of(x), one.data());
    store_row(y, row, type_of(y), other.data());
    ASSERT_EQ(one, other) << row;
  }
}

void expect_same_weights(const Model& a, const Model& b) {
  const auto left = model_tensors(a), right = model_tensors(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    SCOPED_TRACE(left[i].spec.name);
    ASSERT_EQ(left[i].spec.name, right[i].spec.name);
    ASSERT_EQ(left[i].places.size(), right[i].places.size());
    for (size_t place = 0; place < left[i].places.size(); ++place) {
      SCOPED_TRACE(place);
      expect_same_place(left[i].places[place], right[i].places[place]);
    }
  }
}

// Layers that rotate or scale otherwise than their architecture has it in such files, embeddings
// without a factor, caps on a router's scores, limits of steps, factors on products, a scale of
// scores that stretches, other activations, tables of more tokens than the vocabulary has, and
// dense layers between those with experts.
bool has_no_gguf_keys(const std::string& name) {
  return name == "smollm3_window" || name == "gpt2_scaled" || name == "starcoder2_plain" ||
         name == "gpt_neox_serial" || name == "mpt_scaled" || name == "falcon_one_norm" ||
         name == "phi_norms" || name == "nemotron_biases" || name == "mixtral_window" ||
         name == "qwen2_moe_sparse" || name == "mamba2_groups" || name == "deepseek_v3_halves" ||
         name == "mistral3_mistral4_halves" || name == "glm4_moe_lite" || name == "gemma4_vision" ||
         name == "kimi_linear_ranks" || name == "nemotron_h" || name == "falcon_h1" ||
         name == "gemma3n_active" || name == "bitnet_tied" || name == "falcon_h1_norms" ||
         name == "falcon_h1_biases" || name == "granite_swa" || name == "granitemoe_swa" ||
         name == "afmoe_stacked" || name == "laguna_stacked" || name == "bailing_hybrid" ||
         name == "step3p7_stacked" || name == "cohere2_moe_sum" ||
         name.starts_with("llama_shared_kv");
}

// What a model is to readers of GGUF files, where families share a name: a Mistral without windows
// is a Llama, for one.
std::string family_in_gguf(const ModelPlan& plan) {
  const std::string family = plan.architecture;
  const bool windows = std::ranges::max(test::flat(plan).window_tokens) > 0;
  if (family == "mistral" && !windows) return "llama";
  if (family == "iquestcoder" || family == "internlm3") return "llama";
  if (family == "glm4_moe_lite" || family == "youtu") return "deepseek_v3";
  if (family == "qwen3_vl_moe_text") return "qwen3_moe";
  if (family == "gemma4_unified_text") return "gemma4_text";
  return family == "solar_open" ? "glm4_moe" : family;
}

class RoundTrip : public testing::TestWithParam<std::string> {};

TEST_P(RoundTrip, every_weight_keeps_its_bits_in_a_gguf_file_and_back_in_a_folder) {
  const TemporaryFolder out;
  const auto source = open_or_fail(kGoldens + GetParam());
  ASSERT_NE(source, nullptr);
  const auto written = write_gguf_model(*source, out.path("m.gguf"), {}, {});
  if (family_of(source->plan).architecture.empty()) {
    EXPECT_THAT(
        std::string(written.status().message()),
        HasSubstr("GGUF files have no architecture for a " + source->plan.architecture + " model"));
    return;
  }
  if (has_no_gguf_keys(GetParam())) {
    EXPECT_THAT(std::string(written.status().message()),
                AllOf(HasSubstr("cannot be said in a GGUF file"), HasSubstr(" ('"),
                      HasSubstr(", and would be read back as "), HasSubstr("keep it as a folder")));
    EXPECT_FALSE(std::filesystem::exists(out.path("m.gguf")));
    return;
  }
  ASSERT_TRUE(written.ok()) << written.status().message();
  const auto file = open_or_fail(out.path("m.gguf"));
  ASSERT_NE(file, nullptr);
  expect_same_config(file->plan, source->plan);
  expect_same_weights(*file, *source);
  EXPECT_EQ(test::first_frequencies(file->plan), test::first_frequencies(source->plan));

  const Status back = write_folder_model(*file, out.path("folder"), {});
  // Folders that store tensors in another order are not written.
  if (back.code() == StatusCode::unsupported) return;
  ASSERT_TRUE(back.ok()) << back.message();
  const auto folder = open_or_fail(out.path("folder"));
  ASSERT_NE(folder, nullptr);
  EXPECT_EQ(folder->plan.architecture, family_in_gguf(source->plan));
  expect_same_config(folder->plan, source->plan);
  expect_same_weights(*folder, *source);
  EXPECT_EQ(test::first_frequencies(folder->plan), test::first_frequencies(source->plan));
}

INSTANTIATE_TEST_SUITE_P(Goldens, RoundTrip, testing::ValuesIn(golden_names()),
                         [](const auto& test) { return test.param; });

// The file then has a matrix of one row, which readers of GGUF files do not tell from a vector.
TEST(Convert, the_norm_of_one_kv_head_by_its_own_weight_is_read_again) {
  ModelFolder folder;
  folder.config["model_type"] = "\"cohere\"";
  folder.config["use_qk_norm"] = "true";
  folder.tensors.erase("lm_head.weight");
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    folder.tensors.erase(layer + "post_attention_layernorm.weight");
    folder.tensors[layer + "self_attn.q_norm.weight"] = {
        DType::f32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
    folder.tensors[layer + "self_attn.k_norm.weight"] = {DType::f32, {1, 4}, {4, 3, 2, 1}};
  }
  folder.write();
  const TemporaryFolder out;
  const auto source = open_or_fail(folder.path());
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(write_gguf_model(*source, out.path("m.gguf"), {}, {}).ok());
  const auto file = open_or_fail(out.path("m.gguf"));
  ASSERT_NE(file, nullptr);
  expect_same_weights(*file, *source);
}

// A factor on what products read is not on their biases, which are kept divided by it.
TEST(Convert, biases_behind_a_factor_on_the_input_come_back_in_a_folder) {
  const TemporaryFolder out;
  const auto source = open_or_fail(kGoldens + "falcon_h1_biases");
  ASSERT_NE(source, nullptr);
  EXPECT_TRUE(source->plan.layers[0].recurrent.projection_bias);
  EXPECT_FALSE(source->plan.layers[0].recurrent.output_bias);
  ASSERT_TRUE(write_folder_model(*source, out.path("folder"), {}).ok());
  const auto folder = open_or_fail(out.path("folder"));
  ASSERT_NE(folder, nullptr);
  const LayerWeights &ours = source->layers[1], &theirs = folder->layers[1];
  EXPECT_THAT(theirs.q_bias, testing::Pointwise(testing::FloatNear(1e-6f), ours.q_bias));
  EXPECT_THAT(theirs.ssm_in_bias, testing::Pointwise(testing::FloatNear(1e-6f), ours.ssm_in_bias));
}

TEST(Convert, matrices_without_whole_blocks_keep_their_type_and_are_named) {
  const TemporaryFolder out;
  const auto source = open_or_fail(kGoldens + "llama_tied");
  const auto kept =
      write_gguf_model(*source, out.path("m.gguf"), {}, {find_tensor_type(kGgufQ40), {}});
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_THAT(kept->kept, ElementsAre("blk.0.ffn_down.weight", "blk.1.ffn_down.weight"));
  const auto file = open_or_fail(out.path("m.gguf"));
  EXPECT_EQ(file->layers[0].q.format, "q4_0");
  EXPECT_EQ(file->layers[0].down.format, "f32");
}

TEST(Convert, blocks_that_are_not_written_here_are_kept_byte_for_byte) {
  const TemporaryFolder out;
  const auto source = open_or_fail(source_folder() + "/tests/golden/gguf/llama_mixed_blocks.gguf");
  ASSERT_TRUE(write_gguf_model(*source, out.path("m.gguf"), {}, {}).ok());
  const auto file = open_or_fail(out.path("m.gguf"));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->layers[0].q.format, "q5_k");
  EXPECT_EQ(file->layers[0].gate.format, "q4_1");
  EXPECT_EQ(file->head.format, "q6_k");
  expect_same_weights(*file, *source);
}

TEST(Convert, quantised_matrices_come_back_as_f32_with_the_values_of_their_blocks) {
  const TemporaryFolder out;
  const auto file = open_or_fail(source_folder() + "/tests/golden/gguf/llama_tied_q8_0.gguf");
  ASSERT_TRUE(write_folder_model(*file, out.path("folder"), {}).ok());
  const auto folder = open_or_fail(out.path("folder"));
  ASSERT_NE(folder, nullptr);
  EXPECT_EQ(folder->layers[0].q.format, "f32");
  std::vector<float> expected(32), actual(32);
  for (uint32_t row = 0; row < 32; ++row) {
    const TensorType& f32 = *find_tensor_type(kGgufF32);
    store_row(file->layers[0].q, row, f32, reinterpret_cast<std::byte*>(expected.data()));
    store_row(folder->layers[0].q, row, f32, reinterpret_cast<std::byte*>(actual.data()));
    EXPECT_EQ(actual, expected);
  }
}

TEST(Convert, routers_stay_f32_where_experts_are_narrowed) {
  const TemporaryFolder out;
  const auto source = open_or_fail(kGoldens + "qwen2_moe");
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(
      write_gguf_model(*source, out.path("m.gguf"), {}, {find_tensor_type(kGgufBf16), {}}).ok());
  const auto file = open_or_fail(out.path("m.gguf"));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->layers[0].router.format, "f32");
  EXPECT_EQ(file->layers[0].shared_router.format, "f32");
  EXPECT_EQ(file->layers[0].experts[4].down.format, "bf16");
  EXPECT_EQ(file->layers[0].shared_up.format, "bf16");
}

TEST(Convert, what_a_gguf_file_has_no_key_for_is_named_with_both_values) {
  const auto model = open_or_fail(kGoldens + "llama_gqa");
  const auto difference = [&](const std::function<void(ModelPlan&)>& change) {
    ModelPlan changed = model->plan;
    change(changed);
    return plan_difference(changed, model->plan);
  };
  EXPECT_EQ(difference([](ModelPlan&) {}), "");
  EXPECT_EQ(difference([](auto& plan) { plan.layers[1].mlp.activation = Activation::gelu; }),
            "the activation of layer 1 ('hidden_act', 'activation_function') is gelu, and would be "
            "read back as silu");
  EXPECT_EQ(difference([](auto& plan) { plan.layers[0].attention.window_tokens = 7; }),
            "the window of layer 0 ('sliding_window', 'layer_types'; 0: none) is 7, and would be "
            "read back as 0");
  EXPECT_EQ(difference([](auto& plan) { plan.ropes[0].scaling.truncate = false; }),
            "whether yarn rounds its ends of positions ('truncate') is false, and would be read "
            "back as true");
  EXPECT_EQ(
      difference([](auto& plan) { plan.logit_scale = 0.25f; }),
      "the factor on logits ('logits_scaling', 'logit_scale') is 0.25, and would be read back "
      "as 1");
  EXPECT_EQ(difference([](auto& plan) { plan.final_norm.kind = NormKind::layer; }),
            "the last norm (its kind) is a layer norm, and would be read back as an RMS norm");
  EXPECT_THAT(difference([](auto& plan) { plan.layers.pop_back(); }),
              HasSubstr("('num_hidden_layers') is 1, and would be read back as 2"));
}

TEST(Convert, what_a_container_cannot_say_is_refused_with_the_reason) {
  const TemporaryFolder out;
  auto model = open_or_fail(kGoldens + "llama_gqa");
  const auto gguf_fault = [&] {
    const auto written = write_gguf_model(*model, out.path("m.gguf"), {}, {});
    return written.ok() ? "none" : std::string(written.status().message());
  };
  model->plan.eos = {0, 1, 2, 3};
  model->ends.clear();
  EXPECT_THAT(gguf_fault(), HasSubstr("any of 4 tokens; GGUF files have keys for three"));
  model->plan.eos.clear();
  model->plan.ropes[0].theta = 0.1;
  EXPECT_THAT(gguf_fault(), HasSubstr("'llama.rope.freq_base' would be 0.1"));

  model->plan.ropes[0].theta = 1e4;
  model->plan.ropes[0].factors.assign(model->plan.ropes[0].dim / 2, 3.0f);
  EXPECT_THAT(std::string(write_folder_model(*model, out.path("f"), {}).message()),
              HasSubstr("'rope_freqs.weight' holds factors that no rope_scaling"));
  model->plan.ropes[0].factors.clear();
  EXPECT_THAT(
      std::string(
          write_folder_model(*model, out.path("f"), {find_tensor_type(kGgufQ80), {}}).message()),
      HasSubstr("type q8_0 have no place in a safetensors folder"));
}

}  // namespace
}  // namespace tenon
