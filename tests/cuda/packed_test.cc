// Weights of 8 and 4 bits, as checkpoints hold them and as kernels read them.
#include <gtest/gtest.h>
#include <tenon/cuda/machine.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/weights/packed_matrix.h"
#include "core/exec/cuda/weights/weights.h"
#include "tests/cuda/rig/e4m3.h"
#include "tests/cuda/rig/on_device.h"
#include "tests/support/linear/quant_weight.h"

namespace tenon::cuda::test {
namespace {

// What the kernels make of a row.
std::vector<float> unpacked(const Weight& weight, const PackedLayout& layout, uint32_t row) {
  std::vector<uint8_t> codes(layout.code_bytes(weight.k_in)), zeros(layout.groups(weight.k_in));
  std::vector<std::byte> scales(zeros.size() * layout.scale_bytes());
  pack_row(weight, layout, row, {codes.data(), scales.data(), zeros.data()});
  const auto scale_of = [&](uint32_t group) {
    if (!layout.floats) {
      Half half;
      std::memcpy(&half, &scales[group * 2], 2);
      return to_float(half);
    }
    float scale;
    std::memcpy(&scale, &scales[group * 4], 4);
    return scale;
  };
  std::vector<float> values;
  for (uint32_t i = 0; i < weight.k_in; ++i) {
    const uint32_t group = i / static_cast<uint32_t>(layout.group);
    const int place = quant_place(static_cast<int>(i), layout.bits);
    if (layout.floats) {
      values.push_back(of_8_bits(codes[place]) * scale_of(group));
      continue;
    }
    const int code = layout.bits == 8 ? static_cast<int8_t>(codes[place])
                                      : codes[place / 2] >> (place % 2 * 4) & 15;
    int zero = layout.bits == 8 ? 0 : 8;
    if (layout.zeros) zero = layout.bits == 8 ? static_cast<int8_t>(zeros[group]) : zeros[group];
    values.push_back(static_cast<float>(code - zero) * scale_of(group));
  }
  return values;
}

TEST(CudaPacked, rows_stand_for_what_their_blocks_stand_for) {
  for (const char* format :
       {"q8_0", "q4_0", "u4_32", "u4_64", "u4_128", "u8_32", "u8_64", "f8_32", "f8_64", "f8_128"}) {
    SCOPED_TRACE(format);
    QuantWeight blocks(format, 5, whole_blocks(format, 200), 3, 1);
    const Weight weight = weight_of(blocks);
    const PackedLayout layout = packed_layout(weight);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout.zeros, format[0] == 'u');
    const std::vector<float> expected = blocks.values();
    for (uint32_t row = 0; row < 5; ++row) {
      const std::vector<float> values = unpacked(weight, layout, row);
      for (uint32_t i = 0; i < weight.k_in; ++i) {
        // Blocks of u4 and u8 round the product and the sum.
        ASSERT_NEAR(values[i], expected[row * weight.k_in + i], 1e-5f) << row << ", " << i;
      }
    }
  }
}

TEST(CudaPacked, takes_whole_zero_points_alone) {
  QuantWeight blocks("u4_32", 4, 64, 3);
  for (uint32_t row = 0; row < 4; ++row) {
    for (const uint32_t block : {0u, 1u}) {
      const uint16_t eight = sdk::float_to_f16(8.0f);
      std::memcpy(blocks.block(row, block) + 2, &eight, 2);
    }
  }
  EXPECT_TRUE(packed_layout(weight_of(blocks)));
  EXPECT_FALSE(packed_layout(weight_of(blocks)).zeros);
  for (const float zero : {7.5f, -1.0f, 129.0f, 256.0f}) {  // with 4 bits at most 128
    const uint16_t half = sdk::float_to_f16(zero);
    std::memcpy(blocks.block(3, 1) + 2, &half, 2);
    EXPECT_FALSE(packed_layout(weight_of(blocks))) << zero;
  }
}

// Each element has a place of its own in the block of 64 bytes that it stands in.
TEST(CudaPacked, gives_elements_places_of_their_own) {
  for (const int bits : {4, 8}) {
    const int block = quant_block(bits);
    EXPECT_EQ(quant_stride(block + 1, bits), 128);
    std::vector<int> elements(2 * static_cast<size_t>(block), -1);
    for (int k = 0; k < 2 * block; ++k) {
      const int place = quant_place(k, bits);
      ASSERT_EQ(place / block, k / block);
      EXPECT_EQ(place % block * bits / 8 / 16, k % 8 / 2) << k;  // the lane's 16 bytes
      EXPECT_EQ(std::exchange(elements[place], k), -1) << place;
    }
    // What a lane takes at once: neighbours, and those 8 further on.
    EXPECT_EQ(quant_place(9, bits) - quant_place(1, bits), bits == 4 ? 1 : 2);
    EXPECT_EQ(quant_place(1, bits) - quant_place(0, bits), bits == 4 ? 4 : 1);
  }
}

TEST(CudaPacked, leaves_other_formats_to_be_widened) {
  for (const char* format : {"q4_1", "q6_k", "u3_32", "nf4_64", "mxfp4", "nvfp4_64"}) {
    EXPECT_FALSE(packed_layout(weight_of(QuantWeight(format, 2, 256, 1)))) << format;
  }
}

TEST(CudaPacked, embeds_tokens_from_a_table_of_integers) {
  for (const char* format : {"q8_0", "q4_0", "u4_64", "u8_32", "f8_32"}) {
    SCOPED_TRACE(format);
    QuantWeight blocks(format, 6, 64, 7);
    const Weight weight = weight_of(blocks);
    TestDriver driver(1 << 20);
    DeviceMemory memory(driver);
    WeightUpload upload(&memory, Input::bf16);
    const auto table = upload.matrix(weight);
    ASSERT_TRUE(table.ok()) << table.status().message();
    const auto tokens = memory.array<int32_t>(2, "tokens");
    const auto hidden = memory.array<float>(2 * 64, "hidden");
    const int32_t ids[] = {5, 0};
    ASSERT_TRUE(driver.send(*tokens, ids, sizeof(ids)).ok());
    EmbedCall call = {};
    call.tokens = *tokens;
    call.table = table->data;
    call.quant = {table->scales, table->zeros, table->groups, table->group,
                  table->bits,   table->rows,  table->floats};
    call.weights = Input::bf16;
    call.hidden = *hidden;
    call.rows = 2;
    call.width = 64;
    call.stride = table->stride;
    call.scale = 2.0f;
    ASSERT_EQ(launch_embed(driver.stream(), call), 0);
    std::vector<float> made(2 * 64);
    ASSERT_TRUE(driver.fetch(made.data(), *hidden, made.size() * sizeof(float)).ok());
    ASSERT_TRUE(driver.wait().ok());
    const std::vector<float> expected = blocks.values();
    for (size_t i = 0; i < made.size(); ++i) {
      const size_t row = static_cast<size_t>(ids[i / 64]);
      EXPECT_NEAR(made[i], 2.0f * expected[row * 64 + i % 64], 1e-5f) << i;
    }
  }
}

LoadOptions bf16_cache() {
  LoadOptions options;
  options.kv_dtype = DType::bf16;
  return options;
}

TEST(CudaPacked, models_of_other_tools_give_the_logits_of_the_oracle) {
  for (const char* name :
       {"gguf/llama_tied_q8_0.gguf", "gguf/llama_mixed_blocks.gguf", "published/awq_4bit",
        "published/gptq_4bit", "published/gptq_8bit", "published/gptq_4bit_order",
        "published/ct_w4a16", "published/ct_w4a16_zeros", "published/ct_w8a16", "published/ct_w8a8",
        "published/hqq_4bit", "published/ct_fp8", "published/fp8_one_scale",
        "published/fp8_partial_blocks", "published/ct_nvfp4", "published/modelopt_nvfp4",
        "published/gguf_nvfp4/model.gguf"}) {
    expect_oracle(name, 2e-2f, bf16_cache());
  }
}

TEST(CudaPacked, weights_take_the_bytes_that_were_announced_and_have_a_name_of_their_own) {
  struct Case {
    const char* name;
    const char* numerics;
  };
  for (const Case& c :
       {Case{"published/awq_4bit", "cuda/bf16+packed"},
        Case{"gguf/llama_tied_q8_0.gguf", "cuda/bf16+packed"},
        Case{"published/ct_fp8", "cuda/bf16+packed"},
        Case{"published/gptq_4bit_order", "cuda/bf16"}, Case{"models/llama_bf16", "cuda/bf16"},
        Case{"models/llama_gqa", "cuda/f32"}}) {
    SCOPED_TRACE(c.name);
    const auto model = open_golden(c.name);
    ASSERT_NE(model, nullptr);
    const ModelShapeStorage shape(model->plan, 64);
    OnDevice device(*model, shape.shape());
    EXPECT_EQ(device.executor->numerics(), c.numerics);
    const auto announced = DeviceWeights::needs_of(*model);
    ASSERT_TRUE(announced.ok());
    EXPECT_EQ(device.executor->weight_bytes(), announced->bytes);
  }
}

TEST(CudaPacked, weights_of_4_bits_take_little_more_than_4_bits) {
  QuantWeight blocks("q4_0", 64, 256, 3);
  WeightUpload counted(nullptr, Input::bf16);
  ASSERT_TRUE(counted.matrix(weight_of(blocks)).ok());
  EXPECT_EQ(counted.bytes(), 64u * (256 / 2 + 256 / 32 * 2));
}

}  // namespace
}  // namespace tenon::cuda::test
