#include "core/model/tensors/weight_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tenon {
namespace {

Weight matrix(const void* data, DType dtype, uint32_t rows, uint32_t columns, uint64_t stride) {
  TensorView view{.data = data, .dtype = dtype, .space = {}, .rank = 2};
  view.shape[0] = rows;
  view.shape[1] = columns;
  view.stride[0] = stride;
  return {"w", std::string(dtype_name(dtype)), rows, columns, {view}};
}

std::vector<float> row_of(const Weight& weight, uint32_t row) {
  std::vector<float> out(weight.k_in);
  read_row(weight, row, out.data());
  return out;
}

TEST(WeightRows, f32_rows_are_read_with_their_stride) {
  const std::vector<float> data = {1, 2, -1, 3, 4, -1};
  EXPECT_EQ(row_of(matrix(data.data(), DType::f32, 2, 2, 3), 1), (std::vector<float>{3, 4}));
}

TEST(WeightRows, bf16_is_the_upper_half_of_f32) {
  const std::vector<uint16_t> data = {0x3f80, 0xc000, 0x0001};
  EXPECT_EQ(row_of(matrix(data.data(), DType::bf16, 1, 3, 3), 0),
            (std::vector<float>{1.0f, -2.0f, 0x1p-133f}));
}

TEST(WeightRows, f16_covers_normal_subnormal_and_infinite_values) {
  const std::vector<uint16_t> data = {0x3c00, 0xc100, 0x7bff, 0x0001, 0x83ff, 0x7c00, 0x8000};
  const std::vector<float> expected = {1.0f,        -2.5f,    65504.0f, 0x1p-24f,
                                       -0x3ffp-24f, INFINITY, -0.0f};
  EXPECT_EQ(row_of(matrix(data.data(), DType::f16, 1, 7, 7), 0), expected);
}

TEST(WeightRows, rows_may_start_at_any_address) {
  std::vector<std::byte> bytes(3 * sizeof(float) + 1);
  const float values[] = {5, 6, 7};
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  EXPECT_EQ(row_of(matrix(bytes.data() + 1, DType::f32, 1, 3, 3), 0),
            (std::vector<float>{5, 6, 7}));
}

TEST(WeightRows, other_formats_are_refused_by_name) {
  const int8_t data[4] = {};
  Weight weight = matrix(data, DType::i8, 2, 2, 2);
  weight.format = "q8_0";
  EXPECT_EQ(readable_by_rows(weight).message(),
            "'w' has format 'q8_0'; expected one matrix of f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, "
            "q5_1, q6_k, q4_k, q5_k, iq4_nl, mxfp4, q2_k, q3_k, iq4_xs, tq1_0, tq2_0, iq2_xxs, "
            "iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1_s, iq1_m and nvfp4");
  weight = matrix(data, DType::f32, 2, 2, 2);
  weight.n_out = 3;
  EXPECT_FALSE(readable_by_rows(weight).ok());
  EXPECT_TRUE(readable_by_rows(matrix(data, DType::f32, 2, 2, 2)).ok());
}

}  // namespace
}  // namespace tenon
