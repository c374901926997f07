// Checkpoints whose matrices may have several forms: ModelOpt's, AutoRound's, and
// compressed-tensors with several groups. Which form a matrix has, its tensors say; the config must
// not deny it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/half.h"
#include "core/model/published/reader.h"
#include "tests/support/models/memory_checkpoint.h"

namespace tenon {
namespace {

using testing::HasSubstr;

struct Read {
  std::string refusal;
  std::string format;
  uint64_t row_bytes = 0;
  std::vector<std::byte> bytes;

  template <typename Value>
  Value at(uint64_t row, uint64_t byte = 0) const {
    Value value;
    std::memcpy(&value, bytes.data() + row * row_bytes + byte, sizeof(value));
    return value;
  }
};
// The matrix "q" of `checkpoint`, or why there is none.
Read read(const std::string& config, const MemoryCheckpoint& checkpoint) {
  Faults faults;
  const nlohmann::json parsed = nlohmann::json::parse(config);
  const auto reader = published::make_reader(JsonFields(parsed, faults, "quantization_config."));
  Read found;
  found.refusal = std::string(faults.status("config.json").message());
  if (reader == nullptr) return found;
  const auto matrix = reader->read(published::Tensors(checkpoint, "q"));
  found.refusal = std::string(matrix.status().message());
  if (!matrix.ok()) return found;
  const auto pool = WorkerPool::start({.threads = 1, .pin = false});
  const auto stored = published::store("q", *matrix, **pool);
  found.refusal = std::string(stored.status().message());
  if (!stored.ok()) return found;
  found.format = stored->format;
  found.row_bytes = stored->row_bytes;
  found.bytes.assign(stored->bytes.get(), stored->bytes.get() + matrix->n_out * stored->row_bytes);
  return found;
}
template <typename Value>
void put(MemoryCheckpoint& checkpoint, const std::string& name, uint64_t index, Value value) {
  std::memcpy(checkpoint.bytes(name).data() + index * sizeof(value), &value, sizeof(value));
}
std::string modelopt(const std::string& algorithm, const std::string& more = "") {
  return R"({"quant_method":"modelopt","quant_algo":")" + algorithm + "\"" + more + "}";
}

MemoryCheckpoint float8(uint64_t n, uint64_t k) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::f8_e4m3, {n, k}, 0x38);  // 1
  return checkpoint;
}

TEST(PublishedMixed, modelopt_has_fp8_with_a_scale_of_all_of_rows_and_of_blocks) {
  MemoryCheckpoint one = float8(160, 64);
  one.add("q.weight_scale", DType::f32, {1});
  put(one, "q.weight_scale", 0, 0.5f);
  Read found = read(modelopt("FP8"), one);
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.format, "f8_64");
  EXPECT_EQ(found.at<float>(159), 0.5f);

  MemoryCheckpoint rows = float8(160, 64);
  rows.add("q.weight_scale", DType::f32, {160});
  for (uint32_t row = 0; row < 160; ++row) {
    put(rows, "q.weight_scale", row, static_cast<float>(1 + row));
  }
  found = read(modelopt("FP8_PER_CHANNEL_PER_TOKEN"), rows);
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.at<float>(130), 131.0f);

  MemoryCheckpoint blocks = float8(160, 192);  // of 128 by 128, two of them partial each way
  blocks.add("q.weight_scale", DType::f32, {2, 1, 2, 1});
  for (uint32_t i = 0; i < 4; ++i) put(blocks, "q.weight_scale", i, static_cast<float>(1 + i));
  found = read(modelopt("fp8_pb_wo"), blocks);  // as 0.47 writes the name
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.format, "f8_64");
  EXPECT_EQ(found.at<float>(127), 1.0f);
  EXPECT_EQ(found.at<float>(127, 2 * 68), 2.0f);
  EXPECT_EQ(found.at<float>(128), 3.0f);
  EXPECT_EQ(found.at<float>(159, 2 * 68), 4.0f);
  blocks.add("q.weight_scale", DType::f32, {2, 1, 3, 1});
  EXPECT_THAT(read(modelopt("FP8_PB_WO"), blocks).refusal,
              HasSubstr("tensor 'q.weight_scale' is [2, 1, 3, 1]; its matrix and "
                        "'quantization_config' make it [2, 1, 2, 1]"));
}

TEST(PublishedMixed, modelopt_has_powers_of_two_for_32_values) {
  MemoryCheckpoint eight = float8(32, 64);
  eight.add("q.weight_scale", DType::u8, {32, 2}, 127);
  eight.bytes("q.weight_scale")[2 * 5 + 1] = static_cast<char>(130);
  Read found = read(modelopt("MXFP8"), eight);
  EXPECT_EQ(found.refusal, "");
  EXPECT_EQ(found.format, "f8_32");
  EXPECT_EQ(found.at<float>(5), 1.0f);
  EXPECT_EQ(found.at<float>(5, 36), 8.0f);
  eight.bytes("q.weight_scale")[7] = static_cast<char>(255);  // no number
  EXPECT_THAT(read(modelopt("MXFP8"), eight).refusal, HasSubstr("tensor 'q' has a scale"));
  eight.add("q.weight_scale", DType::u8, {32, 3});
  EXPECT_THAT(read(modelopt("MXFP8"), eight).refusal,
              HasSubstr("tensor 'q.weight_scale' is [32, 3]; its matrix and 'quantization_config' "
                        "make it [32, 2]"));

  MemoryCheckpoint four;
  four.add("q.weight", DType::u8, {32, 32}, 0x21);  // 0.5, 1, 0.5, …
  four.add("q.weight_scale", DType::u8, {32, 2}, 126);
  for (const char* name : {"mxfp4", "MXFP4", "W4A8_MXFP4_FP8"}) {
    found = read(modelopt(name), four);
    EXPECT_EQ(found.refusal, "") << name;
    EXPECT_EQ(found.format, "mxfp4");
    EXPECT_EQ(found.at<uint8_t>(3), 126);
    EXPECT_EQ(found.at<uint8_t>(3, 1), 0x11);  // values 0 and 16
    EXPECT_EQ(found.at<uint8_t>(3, 2), 0x22);
  }
}

TEST(PublishedMixed, modelopt_has_whole_numbers_with_a_scale_of_each_row) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::i8, {32, 64}, 3);
  checkpoint.add("q.weight_scale", DType::f32, {32});
  for (uint32_t row = 0; row < 32; ++row) {
    put(checkpoint, "q.weight_scale", row, 0.25f * static_cast<float>(row));
  }
  for (const char* name : {"W8A16", "W8A8_SQ_PER_CHANNEL"}) {
    const Read found = read(modelopt(name), checkpoint);
    EXPECT_EQ(found.refusal, "") << name;
    EXPECT_EQ(found.format, "q8_0");
    EXPECT_EQ(float_from_f16(found.at<uint16_t>(6)), 1.5f);
    EXPECT_EQ(found.at<int8_t>(6, 2), 3);
  }
  checkpoint.add("q.pre_quant_scale", DType::bf16, {64});
  EXPECT_THAT(read(modelopt("W8A8_SQ_PER_CHANNEL"), checkpoint).refusal,
              HasSubstr("tensor 'q.pre_quant_scale' is there: inputs would be scaled by it"));
}

MemoryCheckpoint nvfp4(uint64_t groups) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight", DType::u8, {32, 32});
  checkpoint.add("q.weight_scale", DType::f8_e4m3, {32, groups}, 0x38);
  checkpoint.add("q.weight_scale_2", DType::f32, {1});
  put(checkpoint, "q.weight_scale_2", 0, 1.0f);
  return checkpoint;
}

TEST(PublishedMixed, groups_of_nvfp4_have_16_columns_or_32) {
  MemoryCheckpoint wide = nvfp4(2);
  wide.bytes("q.weight_scale")[1] = '\x40';  // 2, of columns 32 to 63
  for (const char* more : {"", R"(,"group_size":32)"}) {
    const Read found = read(modelopt("W4A8_NVFP4_FP8", more), wide);
    EXPECT_EQ(found.refusal, "");
    EXPECT_EQ(found.format, "nvfp4_64");
    EXPECT_EQ(found.at<uint32_t>(0, 4), 0x40403838u);  // a scale for 16 values each
  }
  EXPECT_EQ(read(modelopt("NVFP4"), nvfp4(4)).refusal, "");
  EXPECT_THAT(read(modelopt("NVFP4", R"(,"group_size":16)"), wide).refusal,
              HasSubstr("tensor 'q.weight' is NVFP4 in groups of 32 by its tensors, but the config "
                        "says NVFP4 in groups of 16"));
}

TEST(PublishedMixed, what_modelopts_config_says_must_be_what_tensors_are) {
  MemoryCheckpoint one = float8(32, 64);
  one.add("q.weight_scale", DType::f32, {});
  EXPECT_THAT(read(modelopt("MXFP8"), one).refusal,
              HasSubstr("tensor 'q.weight' is FP8 with one scale by its tensors, but the config "
                        "says MXFP8 – correct the one that is wrong"));
  const std::string layers = R"(,"quantized_layers":{"q":{"quant_algo":"W8A16"},
                                "k":{"quant_algo":"FP8"},"v":{"quant_algo":"FP8"}})";
  EXPECT_THAT(read(modelopt("MIXED_PRECISION", layers), one).refusal,
              HasSubstr("the config says whole numbers of 8 bits – correct"));
  // One that it does not name has one of its forms.
  const std::string others = R"(,"quantized_layers":{"k":{"quant_algo":"NVFP4","group_size":16},
                                "v":{"quant_algo":"MXFP8"},"w":{"quant_algo":"MXFP8"}})";
  EXPECT_THAT(read(modelopt("MIXED_PRECISION", others), one).refusal,
              HasSubstr("the config says NVFP4 in groups of 16 or MXFP8 – correct"));
  EXPECT_THAT(read(modelopt("MIXED_PRECISION"), one).refusal,
              HasSubstr("'quantization_config.quantized_layers' names no matrix"));
  EXPECT_THAT(read(modelopt("MIXED_PRECISION", R"(,"quantized_layers":{"q":1})"), one).refusal,
              HasSubstr("'quantized_layers.q' is no object"));
  EXPECT_THAT(read(modelopt("W4A16_AWQ"), one).refusal,
              HasSubstr("'quantization_config.quant_algo' is 'W4A16_AWQ'; ModelOpt's checkpoints "
                        "are read of FP8, FP8_PER_CHANNEL_PER_TOKEN, "));
  EXPECT_THAT(read(modelopt("FP8", R"(,"group_size":16)"), one).refusal,
              HasSubstr("'quantization_config.group_size' is 16; expected none, as FP8 with one "
                        "scale has"));
  EXPECT_THAT(read(modelopt("NVFP4", R"(,"group_size":64)"), nvfp4(4)).refusal,
              HasSubstr("is 64; expected 16 or 32, as NVFP4 has"));
  EXPECT_THAT(
      read(modelopt("NVFP4", R"(,"config_groups":{"g":{"weights":{"num_bits":8}}})"), nvfp4(4))
          .refusal,
      HasSubstr("weights.num_bits' is 8; expected 4, which NVFP4 has"));
}

// A config of compressed-tensors with two groups.
std::string groups(const std::string& format, const std::string& a, const std::string& b) {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","config_groups":{"a":)" + a + R"(,"b":)" + b + "}}";
}
std::string integers(int bits, int group, const std::string& more = "") {
  return R"({"weights":{"num_bits":)" + std::to_string(bits) +
         R"(,"strategy":"group","group_size":)" + std::to_string(group) + more + "}}";
}
MemoryCheckpoint packed(uint64_t k, uint64_t words, uint64_t scales) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.weight_packed", DType::i32, {32, words});
  checkpoint.add("q.weight_scale", DType::f32, {32, scales});
  checkpoint.add("q.weight_shape", DType::i64, {2});
  put(checkpoint, "q.weight_shape", 0, int64_t{32});
  put(checkpoint, "q.weight_shape", 1, static_cast<int64_t>(k));
  return checkpoint;
}

TEST(PublishedMixed, of_groups_of_one_format_the_tensors_say_which_a_matrix_is_of) {
  const std::string config = groups("pack-quantized", integers(4, 32), integers(8, 64));
  EXPECT_EQ(read(config, packed(128, 16, 4)).format, "u4_32");
  EXPECT_EQ(read(config, packed(128, 32, 2)).format, "u8_64");
  // As the first one that it might be does not fit.
  EXPECT_THAT(read(config, packed(128, 16, 3)).refusal,
              HasSubstr("tensor 'q.weight_scale' is [32, 3]; its matrix and 'quantization_config' "
                        "make it [32, 4]"));
  // Groups of 64, 64 and 32, or of 96 and 64.
  const std::string alike = groups("pack-quantized", integers(4, 96), integers(4, 128));
  EXPECT_THAT(read(alike, packed(160, 20, 2)).refusal,
              HasSubstr("tensor 'q.weight_packed' fits several groups of the config, which would "
                        "give other values"));
  EXPECT_EQ(read(alike, packed(96, 12, 1)).format, "u4_32");  // one group in both
}

TEST(PublishedMixed, each_group_of_mixed_precision_has_a_format) {
  const std::string four =
      R"({"format":"pack-quantized","weights":{"num_bits":4,"strategy":"group","group_size":32}})";
  const std::string eight = R"({"format":"mxfp8-quantized","weights":{"num_bits":8,"type":"float",
                                "strategy":"group","group_size":32}})";
  const std::string config = groups("mixed-precision", four, eight);
  EXPECT_EQ(read(config, packed(128, 16, 4)).format, "u4_32");
  MemoryCheckpoint checkpoint = float8(32, 64);
  checkpoint.add("q.weight_scale", DType::u8, {32, 2}, 127);
  EXPECT_EQ(read(config, checkpoint).format, "f8_32");
  checkpoint.add("q.weight", DType::i8, {32, 64});
  EXPECT_THAT(read(config, checkpoint).refusal,
              HasSubstr("tensor 'q.weight' has an element type that no group of the config has"));
  EXPECT_THAT(read(groups("mixed-precision", integers(4, 32), eight), checkpoint).refusal,
              HasSubstr("'quantization_config.config_groups.a.format' is ''; expected pack-"));
  EXPECT_THAT(read(groups("pack-quantized", four, eight), checkpoint).refusal,
              HasSubstr("config_groups.b.format' is 'mxfp8-quantized' and that of all is "
                        "'pack-quantized'; expected one, or mixed-precision"));
  EXPECT_THAT(
      read(groups("mxfp8-quantized", integers(8, 64, R"(,"type":"float")"), eight), checkpoint)
          .refusal,
      HasSubstr("group_size' is 64 and 'strategy' is 'group'; expected 32 and group"));
}

std::string auto_round(const std::string& members) {
  return R"({"quant_method":"auto-round",)" + members + "}";
}
MemoryCheckpoint words_down(uint64_t k, uint32_t bits) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("q.qweight", DType::i32, {k * bits / 32, 32}, 0x77);
  checkpoint.add("q.qzeros", DType::i32, {k / 32, bits}, 0x76);
  checkpoint.add("q.scales", DType::f16, {k / 32, 32}, 0x3c);
  return checkpoint;
}

// Of the same names and shapes: AutoRound 0.16 stores zero points less one or as they are.
TEST(PublishedMixed, auto_round_names_the_layout_that_says_how_zero_points_are_stored) {
  const MemoryCheckpoint checkpoint = words_down(64, 4);
  const auto said = [](const char* packing, const char* more = "") {
    return auto_round(std::string(R"("bits":4,"group_size":32,"sym":false,"packing_format":")") +
                      packing + "\"" + more);
  };
  for (const auto& [packing, version] : {std::pair("auto_round", "gptq_v2"),
                                         {"auto_round:gptqmodel", "gptq_v2"},
                                         {"auto_round:auto_gptq", "gptq"}}) {
    const Read found = read(said(packing), checkpoint);
    const Read same = read(std::string(R"({"quant_method":"gptq","bits":4,"group_size":32,
                                       "checkpoint_format":")") +
                               version + "\"}",
                           checkpoint);
    EXPECT_EQ(found.refusal, "") << packing;
    EXPECT_EQ(found.format, "u4_32");
    EXPECT_EQ(found.bytes, same.bytes) << packing;
  }
  EXPECT_NE(read(said("auto_round"), checkpoint).bytes,
            read(said("auto_round:auto_gptq"), checkpoint).bytes);
  // Symmetric ones have zero points in the middle, which one layout stores as 7 and the other as 8.
  EXPECT_THAT(
      read(auto_round(R"("bits":4,"group_size":32,"packing_format":"auto_round")"), checkpoint)
          .refusal,
      HasSubstr("tensor 'q.qzeros' has zero points off the middle"));
  // Other bits are taken from the tensors, where some matrix has them.
  EXPECT_THAT(read(said("auto_round"), words_down(64, 8)).refusal,
              HasSubstr("tensor 'q.scales' is [2, 32]"));
  EXPECT_EQ(
      read(said("auto_round", R"(,"extra_config":{"q":{"bits":8}})"), words_down(64, 8)).format,
      "u8_32");
  EXPECT_THAT(
      read(said("auto_round", R"(,"extra_config":{"lm_head":{"bits":16}})"), words_down(64, 8))
          .refusal,
      HasSubstr("tensor 'q.scales' is [2, 32]"));
  EXPECT_THAT(read(said("auto_round:fake"), checkpoint).refusal,
              HasSubstr("'quantization_config.packing_format' is 'auto_round:fake' with 4 bits of "
                        "'int'; AutoRound's checkpoints are read of int as auto_round, "));
  EXPECT_THAT(
      read(said("auto_round:auto_awq", R"(,"extra_config":{"q":{"bits":8}})"), checkpoint).refusal,
      HasSubstr("extra_config' gives matrices other bits, groups or zero points"));
}

TEST(PublishedMixed, auto_round_has_formats_of_others) {
  MemoryCheckpoint across;
  across.add("q.qweight", DType::i32, {64, 4}, 0x77);
  across.add("q.qzeros", DType::i32, {2, 4}, 0x66);
  across.add("q.scales", DType::f16, {2, 32}, 0x3c);
  const char* awq =
      R"("bits":4,"group_size":32,"sym":false,"packing_format":"auto_round:auto_awq")";
  EXPECT_EQ(read(auto_round(awq), across).bytes,
            read(R"({"quant_method":"awq","bits":4,"group_size":32})", across).bytes);

  MemoryCheckpoint powers = float8(32, 64);
  powers.add("q.weight_scale", DType::u8, {32, 2}, 127);
  EXPECT_EQ(read(auto_round(R"("bits":8,"group_size":32,"data_type":"mx_fp",
                               "packing_format":"auto_round:llm_compressor")"),
                 powers)
                .format,
            "f8_32");
  MemoryCheckpoint parts = nvfp4(4);
  parts.add("q.weight_packed", DType::u8, {32, 32});
  parts.add("q.weight_global_scale", DType::f32, {1});
  put(parts, "q.weight_global_scale", 0, 2.0f);
  EXPECT_EQ(read(auto_round(R"("bits":4,"group_size":16,"data_type":"nv_fp",
                               "packing_format":"auto_round:llm_compressor")"),
                 parts)
                .at<float>(0),
            0.5f);
  EXPECT_THAT(read(auto_round(R"("bits":6,"group_size":32,"data_type":"mx_fp",
                                 "packing_format":"auto_round:llm_compressor")"),
                   powers)
                  .refusal,
              HasSubstr("data_type' is 'mx_fp' of 6 bits; auto_round:llm_compressor is read of"));

  MemoryCheckpoint blocks = float8(160, 192);
  blocks.add("q.weight_scale_inv", DType::bf16, {2, 2}, 0x3f);
  EXPECT_EQ(read(auto_round(R"("bits":8,"group_size":[128,128],"data_type":"fp",
                               "packing_format":"auto_round:fp8")"),
                 blocks)
                .refusal,
            "");
  MemoryCheckpoint one = float8(32, 64);
  one.add("q.weight_scale", DType::bf16, {1}, 0x3f);
  EXPECT_EQ(read(auto_round(R"("bits":8,"group_size":0,"data_type":"fp")"), one).refusal, "");
}

}  // namespace
}  // namespace tenon
