// What readers of quantised checkpoints refuse, by tensor and reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/model/formats/quant_format.h"
#include "core/model/published/reader.h"
#include "tests/support/models/memory_checkpoint.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr const char* kGptq = R"({"quant_method":"gptq","bits":4,"group_size":32})";

std::unique_ptr<published::Reader> reader_of(const std::string& config) {
  Faults faults;
  const nlohmann::json parsed = nlohmann::json::parse(config);
  auto reader = published::make_reader(JsonFields(parsed, faults, "quantization_config."));
  EXPECT_FALSE(faults.any()) << faults.status("config").message();
  return reader;
}
std::string refused_config(const std::string& config) {
  Faults faults;
  const nlohmann::json parsed = nlohmann::json::parse(config);
  const auto reader = published::make_reader(JsonFields(parsed, faults, "quantization_config."));
  EXPECT_EQ(reader, nullptr);
  return std::string(faults.status("config.json").message());
}

// A matrix [32, 64] that GPTQ wrote with 4 bits in groups of 32.
MemoryCheckpoint gptq_matrix() {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.qweight", DType::i32, {8, 32});
  checkpoint.add("q.qzeros", DType::i32, {2, 4});
  checkpoint.add("q.scales", DType::f16, {2, 32});
  return checkpoint;
}
Result<published::Stored> stored(const published::Reader& reader,
                                 const MemoryCheckpoint& checkpoint) {
  TENON_ASSIGN_OR_RETURN(const auto matrix, reader.read(published::Tensors(checkpoint, "q")));
  TENON_ASSIGN_OR_RETURN(const auto pool, WorkerPool::start({.threads = 1, .pin = false}));
  return published::store("q", matrix, *pool);
}
std::string refusal(const published::Reader& reader, const MemoryCheckpoint& checkpoint) {
  return std::string(stored(reader, checkpoint).status().message());
}
std::string refusal(const std::string& config, const MemoryCheckpoint& checkpoint) {
  const auto reader = reader_of(config);
  return reader == nullptr ? std::string() : refusal(*reader, checkpoint);
}

TEST(Published, a_whole_matrix_is_read) {
  EXPECT_EQ(refusal(kGptq, gptq_matrix()), "");
}

TEST(Published, a_missing_tensor_is_named) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.erase("q.qzeros");
  EXPECT_EQ(refusal(kGptq, checkpoint),
            "tensor 'q.qzeros' is missing; 'quantization_config' says that there is one");
}

TEST(Published, a_group_size_that_the_scales_do_not_have_is_refused) {
  EXPECT_EQ(refusal(R"({"quant_method":"gptq","bits":4,"group_size":64})", gptq_matrix()),
            "tensor 'q.scales' is [2, 32]; its matrix and 'quantization_config' make it [1, 32]");
}

TEST(Published, another_number_of_bits_than_the_tensors_have_is_refused) {
  EXPECT_THAT(refusal(R"({"quant_method":"gptq","bits":8,"group_size":32})", gptq_matrix()),
              HasSubstr("tensor 'q.scales' is [2, 32]"));
}

TEST(Published, another_element_type_is_refused) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.scales", DType::i32, {2, 32});
  EXPECT_EQ(refusal(kGptq, checkpoint),
            "tensor 'q.scales' has element type i32; expected f32 or f16 or bf16");
}

TEST(Published, a_column_of_a_group_that_is_not_there_is_refused) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.g_idx", DType::i32, {64}, 1);
  EXPECT_EQ(refusal(kGptq, checkpoint), "tensor 'q.g_idx' puts column 0 into group 16843009 of 2");
}

TEST(Published, groups_of_unequal_size_are_refused) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.g_idx", DType::i32, {64});
  EXPECT_EQ(refusal(kGptq, checkpoint), "tensor 'q.g_idx' gives group 0 64 columns; expected 32");
}

TEST(Published, a_scale_that_is_no_number_is_refused) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.scales", DType::f16, {2, 32}, 0x7e);
  EXPECT_EQ(refusal(kGptq, checkpoint),
            "tensor 'q' has a scale that is no number below 65504; the file is damaged");
}

TEST(Published, values_that_are_no_numbers_are_refused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::f8_e4m3, {32, 64}, 0x7f);
  checkpoint.add("q.weight_scale", DType::f32, {1});
  EXPECT_EQ(refusal(R"({"quant_method":"fp8"})", checkpoint),
            "tensor 'q' holds values that are no numbers; the file is damaged");
}

TEST(Published, rows_that_fill_no_block_are_refused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::f8_e4m3, {32, 40});
  checkpoint.add("q.weight_scale", DType::f32, {1});
  EXPECT_EQ(refusal(R"({"quant_method":"fp8"})", checkpoint),
            "tensor 'q' has 40 columns in groups of 40; both must be multiples of 32");
}

TEST(Published, a_shape_that_lies_is_refused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight_packed", DType::i32, {32, 8});
  checkpoint.add("q.weight_scale", DType::f16, {32, 2});
  checkpoint.add("q.weight_shape", DType::i64, {2});
  EXPECT_THAT(
      refusal(R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":
                 {"g":{"weights":{"num_bits":4,"strategy":"group","group_size":32}}}})",
              checkpoint),
      HasSubstr("tensor 'q.weight_shape' is [0, 0], of which 'weight_packed' would be another"));
}

constexpr const char* kMxFp4 = R"({"quant_method":"compressed-tensors",
    "format":"mxfp4-pack-quantized","config_groups":{"g":{"weights":
    {"num_bits":4,"type":"float","strategy":"group","group_size":32}}}})";

TEST(Published, blocks_of_mxfp4_that_are_none_are_refused) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight_packed", DType::u8, {32, 40});
  checkpoint.add("q.weight_scale", DType::u8, {32, 2});
  EXPECT_EQ(refusal(kMxFp4, checkpoint),
            "tensor 'q.weight_packed' has 40 bytes a row; expected 16 for 32 columns");
  checkpoint.add("q.weight_packed", DType::u8, {32, 48});
  EXPECT_THAT(refusal(kMxFp4, checkpoint), HasSubstr("tensor 'q.weight_scale' is [32, 2]"));
  checkpoint.add("q.weight_packed", DType::u8, {32, 32});
  EXPECT_EQ(refusal(kMxFp4, checkpoint), "");
}

TEST(Published, other_groups_than_those_of_mxfp4_are_refused) {
  EXPECT_THAT(refused_config(R"({"quant_method":"compressed-tensors",
                  "format":"mxfp4-pack-quantized","config_groups":{"g":{"weights":
                  {"num_bits":4,"type":"float","strategy":"group","group_size":64}}}})"),
              HasSubstr("is 64; expected 32, which format 'mxfp4-pack-quantized' has"));
  EXPECT_THAT(refused_config(R"({"quant_method":"compressed-tensors",
                  "format":"mxfp4-pack-quantized","config_groups":{"g":{"weights":
                  {"num_bits":4,"type":"float","strategy":"channel"}}}})"),
              HasSubstr("is 'channel'; expected group"));
}

MemoryCheckpoint nvfp4_matrix(const char* codes, const char* common) {
  MemoryCheckpoint checkpoint;
  checkpoint.add(std::string("q.") + codes, DType::u8, {32, 32});
  checkpoint.add("q.weight_scale", DType::f8_e4m3, {32, 4});
  checkpoint.add(std::string("q.") + common, DType::f32, {1});
  const float one = 1;
  std::memcpy(checkpoint.bytes(std::string("q.") + common).data(), &one, 4);
  return checkpoint;
}
constexpr const char* kNvFp4 = R"({"quant_method":"compressed-tensors",
    "format":"nvfp4-pack-quantized","config_groups":{"g":{"weights":
    {"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})";
constexpr const char* kModelOpt = R"({"quant_method":"modelopt","quant_algo":"NVFP4"})";

TEST(Published, matrices_of_nvfp4_that_are_none_are_refused) {
  MemoryCheckpoint checkpoint = nvfp4_matrix("weight_packed", "weight_global_scale");
  EXPECT_EQ(refusal(kNvFp4, checkpoint), "");
  checkpoint.bytes("q.weight_scale")[5] = '\x7f';
  EXPECT_THAT(refusal(kNvFp4, checkpoint), HasSubstr("tensor 'q' has a scale that"));
  checkpoint.add("q.weight_scale", DType::u8, {32, 4});
  EXPECT_THAT(refusal(kNvFp4, checkpoint), HasSubstr("tensor 'q.weight_scale' has element type"));
  checkpoint = nvfp4_matrix("weight_packed", "weight_global_scale");
  checkpoint.add("q.weight_global_scale", DType::f32, {1});
  EXPECT_EQ(refusal(kNvFp4, checkpoint),
            "tensor 'q.weight_global_scale' is 0.000000; expected a number above 0 – the file is "
            "damaged");
  checkpoint = nvfp4_matrix("weight", "weight_scale_2");
  EXPECT_EQ(refusal(kModelOpt, checkpoint), "");
  checkpoint.add("q.weight", DType::u8, {32, 40});
  checkpoint.add("q.weight_scale", DType::f8_e4m3, {32, 5});
  EXPECT_EQ(refusal(kModelOpt, checkpoint),
            "tensor 'q' has 80 columns; they must be a multiple of 64");
  checkpoint = nvfp4_matrix("weight", "weight_scale_2");
  checkpoint.add("q.pre_quant_scale", DType::f32, {64});
  EXPECT_THAT(refusal(kModelOpt, checkpoint),
              HasSubstr("tensor 'q.pre_quant_scale' is there: inputs would be scaled by it"));
}

TEST(Published, each_tensor_of_nvfp4_has_its_type_and_shape) {
  struct Case {
    const char *config, *codes, *common;
  };
  for (const Case& each : {Case{kNvFp4, "weight_packed", "weight_global_scale"},
                           Case{kModelOpt, "weight", "weight_scale_2"}}) {
    const auto refused = [&](const std::string& suffix, std::optional<DType> type,
                             const std::vector<uint64_t>& shape) {
      MemoryCheckpoint checkpoint = nvfp4_matrix(each.codes, each.common);
      if (type) checkpoint.add("q." + suffix, *type, shape, 1);
      if (!type) checkpoint.erase("q." + suffix);
      return refusal(each.config, checkpoint);
    };
    for (const std::string suffix : {each.common, "weight_scale"}) {
      const std::string tensor = "tensor 'q." + suffix + "' ";
      EXPECT_EQ(refused(suffix, {}, {}),
                tensor + "is missing; 'quantization_config' says that there is one");
      EXPECT_THAT(refused(suffix, DType::bf16, {1}),
                  testing::StartsWith(tensor + "has element type bf16; expected f"));
    }
    EXPECT_THAT(refused(each.codes, DType::i8, {32, 32}),
                testing::AnyOf(HasSubstr("has element type i8; expected u8"),
                               HasSubstr("is whole numbers of 8 bits by its tensors")));
    EXPECT_THAT(refused(each.common, DType::f32, {32}), HasSubstr("is [32]; its matrix and "
                                                                  "'quantization_config' make it "
                                                                  "[1]"));
    // Groups of 32.
    EXPECT_THAT(refused("weight_scale", DType::f8_e4m3, {32, 2}),
                testing::AnyOf(
                    HasSubstr("is [32, 2]; its matrix and 'quantization_config' make it [32, 4]"),
                    HasSubstr("is NVFP4 in groups of 32 by its tensors")));
  }
}

// Two matrices [1, 64] of ones.
MemoryCheckpoint gguf_nvfp4() {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::u8, {2, 1, 36}, 0x22);
  for (const size_t block : {0, 36}) checkpoint.bytes("q.weight").replace(block, 4, 4, 0x38);
  return checkpoint;
}

TEST(Published, each_matrix_of_nvfp4_in_a_gguf_file_has_a_factor_of_its_own) {
  MemoryCheckpoint checkpoint = gguf_nvfp4();
  const auto values = [&checkpoint] {
    const auto blocks = stored(*published::make_gguf_nvfp4(), checkpoint);
    EXPECT_TRUE(blocks.ok()) << blocks.status().message();
    std::vector<float> out(128);
    if (blocks.ok()) {
      EXPECT_EQ(blocks->format, "nvfp4_64");
      dequantize_row(*find_quant_format("nvfp4_64"), blocks->bytes.get(), 128, out.data());
    }
    return out;
  };
  EXPECT_THAT(values(), testing::Each(1.0f));
  checkpoint.add("q.scale", DType::f32, {2});
  const float factors[] = {0.5f, 3.0f};
  std::memcpy(checkpoint.bytes("q.scale").data(), factors, sizeof(factors));
  const std::vector<float> scaled = values();
  EXPECT_THAT(std::span(scaled).first(64), testing::Each(0.5f));
  EXPECT_THAT(std::span(scaled).last(64), testing::Each(3.0f));
}

TEST(Published, scales_of_nvfp4_in_a_gguf_file_that_are_none_are_refused) {
  const auto reader = published::make_gguf_nvfp4();
  for (const char scale : {'\x7f', '\xb8'}) {  // no number; less than 0
    MemoryCheckpoint checkpoint = gguf_nvfp4();
    checkpoint.bytes("q.weight")[38] = scale;
    EXPECT_THAT(refusal(*reader, checkpoint),
                HasSubstr("tensor 'q' has a scale that is no number"));
  }
  MemoryCheckpoint checkpoint = gguf_nvfp4();
  checkpoint.add("q.scale", DType::f32, {1});
  EXPECT_EQ(refusal(*reader, checkpoint),
            "tensor 'q.scale' is [1]; expected [2], a factor for each matrix");
  checkpoint.add("q.scale", DType::f32, {2});
  EXPECT_THAT(refusal(*reader, checkpoint),
              HasSubstr("tensor 'q.scale' is 0.000000; expected a number above 0"));
  checkpoint.add("q.scale", DType::f16, {2});
  EXPECT_THAT(refusal(*reader, checkpoint),
              HasSubstr("tensor 'q.scale' has element type f16; expected f32"));
}

TEST(Published, other_algorithms_and_groups_of_modelopt_are_refused) {
  EXPECT_THAT(refused_config(R"({"quant_method":"modelopt","quant_algo":"NVFP4","config_groups":
                  {"g":{"weights":{"num_bits":4,"group_size":64}}}})"),
              HasSubstr("group_size' is 64; expected 16 or 32, as NVFP4 has"));
  EXPECT_THAT(refused_config(R"({"quant_method":"compressed-tensors",
                  "format":"nvfp4-pack-quantized","config_groups":{"g":{"weights":
                  {"num_bits":4,"type":"float","strategy":"group","group_size":16}}}})"),
              HasSubstr("is 'group'; expected tensor_group"));
}

constexpr const char* kMixed = R"({"quant_method":"gptq","bits":4,"group_size":64,
                                   "dynamic":{"+:^q$":{"bits":8,"group_size":32}}})";

TEST(Published, of_matrices_that_differ_each_says_itself_what_it_is) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.qweight", DType::i32, {16, 32});
  checkpoint.add("q.qzeros", DType::i32, {2, 8});
  checkpoint.add("q.g_idx", DType::i32, {64}, 0);
  for (int column = 32; column < 64; ++column) checkpoint.bytes("q.g_idx")[4 * column] = 1;
  EXPECT_EQ(refusal(kMixed, checkpoint), "");
  checkpoint.add("q.g_idx", DType::i32, {96}, 0);
  EXPECT_EQ(refusal(kMixed, checkpoint),
            "tensor 'q.g_idx' is [96]; its matrix and 'quantization_config' make it [64]");
  checkpoint.add("q.qzeros", DType::i32, {2, 5});
  EXPECT_EQ(refusal(kMixed, checkpoint),
            "tensor 'q.qzeros' has 5 columns of words beside the 32 of 'qweight'; expected 2, 3, 4 "
            "or 8 bits each");
}

TEST(Published, matrices_that_differ_may_end_in_a_partial_group) {
  MemoryCheckpoint checkpoint = gptq_matrix();  // 96 columns of 4 bits, in groups of 64
  checkpoint.add("q.qweight", DType::i32, {12, 32});
  EXPECT_EQ(refusal(kMixed, checkpoint), "");
  checkpoint.add("q.g_idx", DType::i32, {96}, 0);
  for (int column = 64; column < 96; ++column) checkpoint.bytes("q.g_idx")[4 * column] = 1;
  EXPECT_EQ(refusal(kMixed, checkpoint), "");
  const auto matrix = reader_of(kMixed)->read(published::Tensors(checkpoint, "q"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->group, 64u);
  EXPECT_TRUE(matrix->order.empty());
}

TEST(Published, without_an_order_matrices_that_differ_have_equal_groups) {
  MemoryCheckpoint checkpoint = gptq_matrix();
  checkpoint.add("q.qweight", DType::i32, {16, 32});  // 128 columns of 4 bits
  checkpoint.add("q.qzeros", DType::i32, {4, 4});
  checkpoint.add("q.scales", DType::f16, {4, 32});
  const auto matrix = reader_of(kMixed)->read(published::Tensors(checkpoint, "q"));
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->group, 32u);
  checkpoint.add("q.qzeros", DType::i32, {3, 4});
  checkpoint.add("q.scales", DType::f16, {3, 32});
  EXPECT_EQ(refusal(kMixed, checkpoint),
            "tensor 'q.scales' has 3 groups for 128 columns, and no 'g_idx' says which are whose");
}

// One of compressed-tensors, with more members in front.
std::string compressed(const std::string& members) {
  return R"({"quant_method":"compressed-tensors","format":"pack-quantized",)" + members + "}";
}
constexpr const char* kFourBits = R"("weights":{"num_bits":4,"strategy":"group","group_size":32})";

TEST(Published, there_are_config_groups) {
  const std::string form = std::string("{") + kFourBits + "}";
  EXPECT_NE(reader_of(compressed(R"("config_groups":{"a":)" + form + R"(,"b":)" + form + "}")),
            nullptr);
  EXPECT_THAT(refused_config(compressed(R"("config_groups":{})")),
              HasSubstr("'quantization_config.config_groups' has no group"));
}

TEST(Published, transforms_and_left_out_zeros_are_refused_by_key) {
  const std::string groups = std::string(R"("config_groups":{"a":{)") + kFourBits + "}},";
  EXPECT_NE(reader_of(compressed(groups + R"("transform_config":{},
                                             "sparsity_config":{"format":"dense"})")),
            nullptr);
  EXPECT_THAT(refused_config(compressed(groups + R"("transform_config":{"config_groups":{"R4":
                                                      {"type":"hadamard"}}})")),
              HasSubstr("'quantization_config.transform_config.config_groups' is there: "
                        "activations would be rotated"));
  EXPECT_THAT(
      refused_config(compressed(groups + R"("sparsity_config":{"format":"sparse-24-bitmask"})")),
      HasSubstr("'quantization_config.sparsity_config.format' is 'sparse-24-bitmask'; expected "
                "dense"));
}

TEST(Published, scales_of_a_quantised_cache_are_no_tensors_of_the_model) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>(gptq_matrix());
  checkpoint->add("attn.k_scale", DType::f32, {1});
  checkpoint->add("attn.v_scale", DType::f32, {1});
  checkpoint->add("attn.scale", DType::f32, {1});
  const auto read = published::published_checkpoint(std::move(checkpoint), *reader_of(kGptq));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_THAT((*read)->names(), testing::ElementsAre("attn.scale", "q.weight"));
}

TEST(Published, configs_that_ask_for_more_than_is_read_are_refused_by_key_and_value) {
  EXPECT_THAT(refused_config(R"({"quant_method":"gptq","bits":5})"),
              HasSubstr("'quantization_config.bits' is 5; GPTQ is read with 2, 3, 4 or 8"));
  EXPECT_THAT(refused_config(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})"),
              HasSubstr("'quantization_config.checkpoint_format' is 'marlin'"));
  EXPECT_THAT(refused_config(R"({"quant_method":"gptq","bits":5,"checkpoint_format":"gptq_v2"})"),
              HasSubstr("'quantization_config.bits' is 5; GPTQ is read with 2, 3, 4 or 8"));
  EXPECT_THAT(refused_config(R"({"quant_method":"gptq","bits":9,"checkpoint_format":"gptq_p"})"),
              HasSubstr("'quantization_config.bits' is 9; GPTQ is read with 2 to 8"));
  EXPECT_THAT(refused_config(R"({"quant_method":"gptq","bits":4,"rotation":"hadamard"})"),
              HasSubstr("'quantization_config.rotation' is there: activations would be rotated"));
  EXPECT_THAT(refused_config(R"({"quant_method":"awq","bits":9})"),
              HasSubstr("'quantization_config.bits' is 9; AWQ is read with 2 to 8"));
  EXPECT_THAT(refused_config(R"({"quant_method":"awq","version":"gemv"})"),
              HasSubstr("'quantization_config.version' is 'gemv'; expected gemm"));
  EXPECT_THAT(refused_config(R"({"quant_method":"compressed-tensors","format":"marlin-24"})"),
              HasSubstr("'quantization_config.format' is 'marlin-24'"));
  EXPECT_THAT(refused_config(R"({"quant_method":"bitsandbytes"})"), HasSubstr("expected one"));
  EXPECT_THAT(refused_config(R"({"quant_method":"hqq","quant_config":{"weight_quant_params":
                                {"nbits":4,"group_size":64,"axis":0}}})"),
              HasSubstr("axis' is 0, whose groups go across rows; expected 1"));
  EXPECT_THAT(refused_config(R"({"quant_method":"fp8","weight_block_size":[128]})"),
              HasSubstr("weight_block_size"));
}

}  // namespace
}  // namespace tenon
