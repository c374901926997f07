// Codes and how they are stored: what is written is read back by the readers of core/model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "core/model/formats/quant_format.h"
#include "core/model/published/reader.h"
#include "core/quantize/blocks/made_tensor.h"
#include "core/quantize/methods/method.h"
#include "tests/support/models/memory_checkpoint.h"
#include "tests/unit/quantize/threads.h"

namespace tenon::quantize {
namespace {

constexpr uint64_t kCodedRows = 64, kCodedColumns = 256;

std::vector<float> random_matrix(uint64_t count, uint64_t seed = 1) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal(0.01f, 0.05f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(bits);
  return values;
}

CodedMatrix rounded(const std::vector<float>& w, const GridOptions& grid) {
  CodedMatrix out(kCodedRows, kCodedColumns, grid);
  round_to_nearest(w.data(), 0, kCodedRows, out);
  return out;
}

std::vector<float> all_values(const CodedMatrix& matrix) {
  std::vector<float> values(matrix.n * matrix.k);
  for (uint64_t row = 0; row < matrix.n; ++row) matrix.values(row, &values[row * matrix.k]);
  return values;
}

// What our own reader makes of the tensors, in the columns' own places.
std::vector<float> read_back(const MadeTensors& tensors, const MethodOptions& options) {
  MemoryCheckpoint checkpoint;
  for (const MadeTensor& tensor : tensors) {
    checkpoint.view(tensor.name, tensor.dtype, tensor.shape, tensor.bytes.data());
  }
  Faults faults;
  const nlohmann::json config = nlohmann::json::parse(quantization_config(options, {}));
  const auto reader = published::make_reader(JsonFields(config, faults, ""));
  EXPECT_FALSE(faults.any()) << faults.status("config").message();
  const auto matrix = reader->read(published::Tensors(checkpoint, "m"));
  EXPECT_TRUE(matrix.ok()) << matrix.status().message();
  const auto stored = published::store("m", *matrix, *threads(1));
  EXPECT_TRUE(stored.ok()) << stored.status().message();
  std::vector<float> values(kCodedRows * kCodedColumns), row(kCodedColumns);
  for (uint64_t r = 0; r < kCodedRows; ++r) {
    dequantize_row(*find_quant_format(stored->format), stored->bytes.get() + r * stored->row_bytes,
                   kCodedColumns, row.data());
    for (uint64_t j = 0; j < kCodedColumns; ++j) {
      const uint64_t column = stored->order.empty() ? j : static_cast<uint64_t>(stored->order[j]);
      values[r * kCodedColumns + column] = row[j];
    }
  }
  return values;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "value " << i;
  }
}

TEST(Grid, rounds_to_half_a_step_within_its_range) {
  const std::vector<float> w = random_matrix(kCodedRows * kCodedColumns);
  for (const bool symmetric : {false, true}) {
    const CodedMatrix coded = rounded(w, {.bits = 4, .group = 64, .symmetric = symmetric});
    const std::vector<float> back = all_values(coded);
    for (size_t i = 0; i < w.size(); ++i) {
      const Grid& grid = coded.grids[i / 64];
      // A symmetric grid ends one step earlier above; a zero point is rounded itself.
      EXPECT_LE(std::fabs(back[i] - w[i]), grid.scale * 1.01f);
      EXPECT_GE(grid.zero, 1);
    }
  }
}

TEST(Grid, keeps_values_of_one_sign_whatever_the_least_zero_point_is) {
  const std::vector<float> values = {0.5f, 1.0f, 0.25f, 0.75f};
  for (const uint32_t least : {0u, 1u}) {
    const Grid grid = fit_grid(values, {}, {.bits = 4, .symmetric = false, .least_zero = least});
    EXPECT_EQ(grid.zero, least);
    for (const float value : values) {
      EXPECT_NEAR(grid.value(grid.code(value, 15)), value, grid.scale * 0.51f);
    }
  }
}

TEST(Grid, a_searched_range_errs_no_more_than_the_whole_one) {
  const std::vector<float> values = random_matrix(64);
  const auto error = [&](bool search) {
    const Grid grid = fit_grid(values, {}, {.bits = 2, .search = search});
    double sum = 0;
    for (const float value : values) sum += std::pow(value - grid.value(grid.code(value, 3)), 2);
    return sum;
  };
  EXPECT_LT(error(true), 0.95 * error(false));
}

TEST(Grid, takes_rows_of_zeros) {
  const Grid grid = fit_grid(std::vector<float>(32), {}, {});
  EXPECT_EQ(grid.value(grid.code(0, 15)), 0);
}

TEST(WrittenCodes, of_gptq_are_read_back_with_all_bits_and_both_versions) {
  const std::vector<float> w = random_matrix(kCodedRows * kCodedColumns);
  for (const uint32_t bits : {2u, 3u, 4u, 8u}) {
    for (const bool second : {false, true}) {
      for (const uint64_t group : {0u, 32u, 128u}) {
        MethodOptions options{.method = Method::rtn, .second_version = second};
        options.grid = {
            .bits = bits, .group = group, .symmetric = false, .least_zero = second ? 0u : 1u};
        const CodedMatrix coded = rounded(w, options.grid);
        expect_near(read_back(gptq_tensors("m", coded, second, *threads(3)), options),
                    all_values(coded), 1e-6f);
      }
    }
  }
}

TEST(WrittenCodes, of_gptq_are_read_back_with_columns_in_another_order) {
  MethodOptions options{.method = Method::gptq};
  options.grid = {.bits = 4, .group = 32, .symmetric = true};
  options.gptq.act_order = true;
  CodedMatrix coded = rounded(random_matrix(kCodedRows * kCodedColumns), options.grid);
  for (uint64_t j = 0; j < kCodedColumns; ++j) coded.group_of[j] = static_cast<uint32_t>(j % 8);
  expect_near(read_back(gptq_tensors("m", coded, false, *threads(1)), options), all_values(coded),
              1e-6f);
}

TEST(WrittenCodes, of_awq_are_read_back) {
  MethodOptions options{.method = Method::awq};
  options.grid = {.bits = 4, .group = 64, .symmetric = false, .least_zero = 0};
  const CodedMatrix coded = rounded(random_matrix(kCodedRows * kCodedColumns), options.grid);
  expect_near(read_back(awq_tensors("m", coded, *threads(3)), options), all_values(coded), 1e-6f);
}

TEST(WrittenCodes, of_whole_bytes_and_levels_are_read_back) {
  using Write =
      MadeTensors (*)(const std::string&, std::vector<float>&, uint64_t, uint64_t, WorkerPool&);
  const std::pair<Method, Write> cases[] = {
      {Method::nf4, nf4_tensors}, {Method::int8, int8_tensors}, {Method::fp8, float8_tensors}};
  const std::vector<float> w = random_matrix(kCodedRows * kCodedColumns);
  const double most[] = {0.1, 0.011, 0.04};  // of the size of the matrix
  for (size_t i = 0; i < 3; ++i) {
    std::vector<float> back = w;
    const MadeTensors tensors = cases[i].second("m", back, kCodedRows, kCodedColumns, *threads(3));
    // Scales become f16 in our blocks.
    expect_near(read_back(tensors, {.method = cases[i].first}), back, 2e-4f);
    double error = 0, size = 0;
    for (size_t j = 0; j < w.size(); ++j) {
      error += std::pow(back[j] - w[j], 2);
      size += std::pow(w[j], 2);
    }
    EXPECT_LT(std::sqrt(error / size), most[i]) << method_name(cases[i].first);
    EXPECT_GT(error, 0);
  }
}

TEST(WrittenCodes, of_e4m3_are_the_nearest_ones) {
  // 448 is the largest, so that the scale is 1; 17 lies between 16 and 18, 2^-9 is the least.
  std::vector<float> w(32);
  const std::vector<float> values = {448, 17, -17, 19, 0.001953125f, 0.0009f, 1.0625f, -240};
  std::ranges::copy(values, w.begin());
  float8_tensors("m", w, 1, 32, *threads(1));
  EXPECT_THAT(std::vector<float>(w.begin(), w.begin() + 8),
              testing::ElementsAre(448, 16, -16, 20, 0.001953125f, 0, 1, -240));
}

TEST(Methods, refuse_what_they_do_not_have_by_name) {
  EXPECT_EQ(
      message_of(method_named("gptk").status()),
      "the method 'gptk' is not known; a folder is written with rtn, gptq, awq, nf4, int8, fp8");
  MethodOptions awq{.method = Method::awq};
  awq.grid.bits = 3;
  EXPECT_FALSE(check_method(awq).ok());
  EXPECT_EQ(message_of(check_method({.grid = {.bits = 5}})),
            "5 bits; rtn is written with 2, 3, 4 or 8 – choose one of them");
  EXPECT_EQ(message_of(check_extents({.grid = {.bits = 4, .group = 128}}, "a.weight", 32, 160)),
            "tensor 'a.weight' is [32, 160]; rtn needs columns in whole groups of 128 – choose "
            "another method or group");
}

}  // namespace
}  // namespace tenon::quantize
