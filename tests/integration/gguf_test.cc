// Models in GGUF files against the same models in folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/files/npy.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"
#include "tests/support/step_driver.h"

namespace tenon::test {
namespace {

const std::string kFolders = golden_models();
const std::string kFiles = golden_ggufs();

std::unique_ptr<Model> open_or_fail(const std::string& path) {
  auto model = open_model(path);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

Logits logits_of(const Model& model, const ExecutorCase& executor_case) {
  const ModelShapeStorage shape(model.plan, 64);
  Loaded executor(executor_case, model, shape.shape());
  return executor->feed(some_tokens(40, model.plan.vocabulary), {17, 1, 5});
}

class GgufModel : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GgufModel, a_file_has_the_same_bits_of_logits_as_the_folder) {
  const auto folder = open_or_fail(kFolders + GetParam().first);
  const auto file = open_or_fail(kFiles + GetParam().second);
  ASSERT_TRUE(folder && file);
  EXPECT_EQ(logits_of(*file, {}), logits_of(*folder, {}));
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, GgufModel,
    testing::Values(
        std::pair("llama_gqa", "llama_gqa_f32.gguf"), std::pair("llama_bf16", "llama_bf16.gguf"),
        std::pair("llama_biases", "llama_biases_f32.gguf"), std::pair("qwen3", "qwen3_f32.gguf"),
        std::pair("olmo2", "olmo2_f32.gguf"), std::pair("granite", "granite_f32.gguf"),
        std::pair("smollm3", "smollm3_f32.gguf"), std::pair("starcoder2", "starcoder2_f32.gguf"),
        std::pair("llama4_usual", "llama4_usual_f16.gguf"), std::pair("gpt2", "gpt2_f32.gguf"),
        std::pair("gpt_neox", "gpt_neox_f32.gguf"),
        std::pair("stablelm_parallel", "stablelm_parallel_f32.gguf"),
        std::pair("cohere", "cohere_f32.gguf"), std::pair("phi3_long", "phi3_long_f32.gguf"),
        std::pair("gemma2_plain", "gemma2_plain_f32.gguf"),
        std::pair("gemma3_deep", "gemma3_deep_f32.gguf"), std::pair("mpt", "mpt_f32.gguf"),
        std::pair("deepseek_v2", "deepseek_v2_f32.gguf"),
        std::pair("deepseek_v2_experts", "deepseek_v2_experts_f32.gguf"),
        std::pair("deepseek_v2_groups", "deepseek_v2_groups_f32.gguf"),
        std::pair("deepseek_v3_experts", "deepseek_v3_experts_f32.gguf"),
        std::pair("deepseek_v3", "deepseek_v3_f32.gguf"), std::pair("bloom", "bloom_f32.gguf"),
        std::pair("falcon_grouped", "falcon_grouped_f32.gguf"), std::pair("olmo", "olmo_f32.gguf"),
        std::pair("phi", "phi_f32.gguf"), std::pair("nemotron", "nemotron_f32.gguf"),
        std::pair("mixtral", "mixtral_f32.gguf"), std::pair("qwen2_moe", "qwen2_moe_f32.gguf"),
        std::pair("qwen3_moe", "qwen3_moe_f32.gguf"), std::pair("olmoe", "olmoe_f32.gguf"),
        std::pair("gpt_oss", "gpt_oss_f32.gguf"), std::pair("mamba", "mamba_f32.gguf"),
        std::pair("mamba2", "mamba2_f32.gguf"), std::pair("granite4", "granite4_f32.gguf"),
        std::pair("granitemoeshared", "granitemoeshared_f32.gguf"),
        std::pair("granite4_experts", "granite4_experts_f32.gguf"),
        std::pair("qwen3_next", "qwen3_next_f32.gguf"), std::pair("qwen3_5", "qwen3_5_f32.gguf"),
        std::pair("qwen3_5_moe", "qwen3_5_moe_f32.gguf"), std::pair("bitnet", "bitnet_f16.gguf"),
        std::pair("gemma3n_text", "gemma3n_text_f16.gguf")),
    [](const auto& test) { return std::string(test.param.first); });

TEST(GgufFile, the_smallest_old_file_has_the_same_bits_of_logits_as_its_folder) {
  const char* given = std::getenv("TENON_SHARED_DATA");
  const std::string shared = given != nullptr ? given : source_folder() + "/../shared/data";
  if (!std::filesystem::exists(shared + "/models")) GTEST_SKIP() << "no shared data";
  const auto folder = open_or_fail(shared + "/models/stories260k");
  const auto file = open_or_fail(shared + "/models/stories260k-v1.gguf");
  ASSERT_TRUE(folder && file);
  EXPECT_EQ(logits_of(*file, {}), logits_of(*folder, {}));
}

// Stored factors are f32 where the folder's settings are computed in double.
TEST(GgufFile, stored_rotary_factors_mean_what_the_folder_s_scaling_does) {
  const auto folder = open_or_fail(kFolders + "llama_rope_llama3");
  const auto file = open_or_fail(kFiles + "llama_rope_llama3_f32.gguf");
  ASSERT_TRUE(folder && file);
  const auto expected = first_frequencies(folder->plan), actual = first_frequencies(file->plan);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 2e-7f * expected[i]) << i;
  }
  EXPECT_LE(largest_difference(logits_of(*file, {}), logits_of(*folder, {})), 1e-5);
}

// f16 weights of an f32 folder: rounded, and with biases that are not in pairs.
TEST(GgufFile, rows_of_qwen_stand_as_they_do_in_the_folder) {
  const auto folder = open_or_fail(kFolders + "qwen2");
  const auto file = open_or_fail(kFiles + "qwen2_f16.gguf");
  ASSERT_TRUE(folder && file);
  EXPECT_EQ(file->layers[0].q.format, "f16");
  EXPECT_EQ(file->layers[0].q_bias, folder->layers[0].q_bias);
  EXPECT_LE(largest_difference(logits_of(*file, {}), logits_of(*folder, {})), 5e-3);
}

TEST(GgufFile, blocks_are_near_the_weights_that_they_were_made_of) {
  const auto file = open_or_fail(kFiles + "llama_tied_q8_0.gguf");
  const auto folder = open_or_fail(kFolders + "llama_tied");
  ASSERT_TRUE(file && folder);
  EXPECT_EQ(file->layers[0].q.format, "q8_0");
  EXPECT_EQ(file->layers[0].down.format, "f32");  // rows of 72 are no whole blocks
  EXPECT_EQ(file->parameter_count(), folder->parameter_count());
  std::vector<float> blocks(32), values(32);
  for (uint32_t row = 0; row < 32; ++row) {
    read_row(file->layers[0].q, row, blocks.data());
    read_row(folder->layers[0].q, row, values.data());
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    // Half a step of the scale, and the scale's own rounding to f16.
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_NEAR(blocks[i], values[i], largest / 127 * 0.5f + largest * 0x1p-11f);
    }
  }
  const double apart = largest_difference(logits_of(*file, {}), logits_of(*folder, {}));
  EXPECT_GT(apart, 0.0);
  EXPECT_LE(apart, 5e-2);
}

TEST(GgufFile, mixed_formats_run_on_the_cpu_as_on_the_oracle) {
  const auto file = open_or_fail(kFiles + "llama_tied_q8_0.gguf");
  ASSERT_TRUE(file);
  const ExecutorCase plain{.kind = ExecutorCase::Kind::cpu_plain};
  EXPECT_LE(largest_difference(logits_of(*file, plain), logits_of(*file, {})), 1e-4);
}

class MixedBlocks : public testing::TestWithParam<ExecutorCase> {};

TEST_P(MixedBlocks, a_layer_with_every_format_and_a_tied_q6_k_head_agrees_with_the_oracle) {
  const auto file = open_or_fail(kFiles + "llama_mixed_blocks.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->head.format, "q6_k");
  const Logits oracle = logits_of(*file, {});
  EXPECT_LE(largest_difference(logits_of(*file, GetParam()), oracle), 1e-4);
}

TEST_P(MixedBlocks, layers_in_every_format_of_few_bits_agree_with_the_oracle) {
  const auto file = open_or_fail(kFiles + "llama_low_bits.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->layers[2].q.format, "iq1_m");
  const Logits oracle = logits_of(*file, {});
  EXPECT_LE(largest_difference(logits_of(*file, GetParam()), oracle), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Cpu, MixedBlocks, testing::ValuesIn(cpu_cases()),
                         [](const auto& test) { return test.param.name(); });

class Quants : public testing::TestWithParam<std::string> {};

TEST_P(Quants, blocks_are_those_of_the_format_s_own_library_bit_for_bit) {
  const QuantFormat& format = *find_quant_format(GetParam());
  const auto rows = read_npy_f32(kFiles + "quants.npy");
  const auto golden = MappedFile::open(kFiles + GetParam() + ".bin");
  ASSERT_TRUE(rows.ok() && golden.ok());
  std::vector<std::byte> blocks(format.row_bytes(rows->values.size()));
  quantize_row(format, rows->values.data(), rows->values.size(), blocks.data());
  ASSERT_EQ(blocks.size(), golden->bytes().size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(blocks[i], golden->bytes()[i])
        << "block " << i / format.bytes << " byte " << i % format.bytes;
  }
}

const auto kFormatName = [](const auto& test) { return test.param; };
INSTANTIATE_TEST_SUITE_P(Formats, Quants, testing::Values("q8_0", "q4_0"), kFormatName);

class Blocks : public testing::TestWithParam<std::string> {};

TEST_P(Blocks, values_are_those_of_the_format_s_own_library_bit_for_bit) {
  const QuantFormat& format = *find_quant_format(GetParam());
  const auto golden = read_npy_f32(kFiles + "blocks_" + GetParam() + ".npy");
  const auto blocks = MappedFile::open(kFiles + "blocks_" + GetParam() + ".bin");
  ASSERT_TRUE(golden.ok() && blocks.ok());
  std::vector<float> values(golden->values.size());
  ASSERT_EQ(blocks->bytes().size(), format.row_bytes(values.size()));
  dequantize_row(format, blocks->bytes().data(), values.size(), values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(golden->values[i]))
        << "value " << i << ": " << values[i] << " for " << golden->values[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Blocks,
                         testing::Values("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k",
                                         "q6_k", "iq4_nl", "mxfp4", "q2_k", "q3_k", "iq4_xs",
                                         "tq1_0", "tq2_0", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs",
                                         "iq3_s", "iq1_s", "iq1_m"),
                         kFormatName);

}  // namespace
}  // namespace tenon::test
