#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"
#include "tests/cuda/rig/e4m3.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

int up_to(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// x [rows, k], W [n, k] and a bias, rounded to bf16 where products read that.
struct Problem {
  uint32_t rows;
  int n, k;
  std::vector<float> x, w, bias, y;

  Problem(uint32_t row_count, int n_out, int k_in, uint64_t seed = 1)
      : rows(row_count), n(n_out), k(k_in) {
    Numbers numbers(seed);
    w = widened(rounded(numbers.many(static_cast<uint64_t>(n) * k)));
    bias = numbers.many(static_cast<uint64_t>(n));
    x = widened(rounded(numbers.many(static_cast<uint64_t>(rows) * k)));
    y = numbers.many(static_cast<uint64_t>(rows) * n);
  }
  double expected(uint32_t row, int column) const {
    double sum = 0.0;
    for (int i = 0; i < k; ++i) sum += double{x[row * k + i]} * double{w[column * k + i]};
    return sum + bias[column];
  }
  // The same with its first rows alone.
  Problem first(uint32_t count) const {
    Problem some = *this;
    some.rows = count;
    some.x.resize(count * static_cast<size_t>(k));
    some.y.resize(count * static_cast<size_t>(n));
    return some;
  }
  std::string name() const {
    return std::to_string(rows) + " rows, " + std::to_string(n) + " columns, K " +
           std::to_string(k);
  }
};

std::vector<float> padded(const std::vector<float>& from, int width, int stride, float with) {
  std::vector<float> result;
  for (size_t row = 0; row < from.size() / static_cast<size_t>(width); ++row) {
    for (int i = 0; i < stride; ++i) {
      result.push_back(i < width ? from[row * static_cast<size_t>(width) + i] : with);
    }
  }
  return result;
}

std::vector<float> multiply(Input type, const Problem& p, bool add = false, uint64_t seed = 1,
                            ProductTiles tiles = ProductTiles::by_shape) {
  EmulatedDevice device(seed);
  MultiplyCall call = {};
  call.rows = p.rows;
  call.n_out = p.n;
  call.k_in = p.k;
  call.x_stride = up_to(p.k, 8);
  call.w_stride = up_to(p.k, 32);
  call.y_stride = p.n;
  call.add = add;
  call.factor = 0.5f;
  call.tiles = tiles;
  // The bytes after a row of x are never used.
  const std::vector<float> x = padded(p.x, p.k, call.x_stride, NAN);
  const std::vector<float> w = padded(p.w, p.k, call.w_stride, 0.0f);
  if (type == Input::bf16) {
    call.x = device.upload(rounded(x), "x");
    call.w = device.upload(rounded(w), "w");
  } else {
    call.x = device.upload(x, "x");
    call.w = device.upload(w, "w");
  }
  call.bias = device.upload(p.bias, "bias");
  call.y = add ? device.upload_variable(p.y, "y") : device.make<float>(p.y.size(), "y");
  EXPECT_EQ(launch_multiply(nullptr, type, call), 0);
  return device.download(call.y, p.y.size());
}

void expect_product(Input type, const Problem& p, ProductTiles tiles = ProductTiles::by_shape) {
  SCOPED_TRACE(p.name());
  const std::vector<float> y = multiply(type, p, false, 1, tiles);
  for (uint32_t row = 0; row < p.rows; ++row) {
    for (int column = 0; column < p.n; ++column) {
      ASSERT_NEAR(y[row * p.n + column], p.expected(row, column), 1e-5 * p.k)
          << "row " << row << ", column " << column;
    }
  }
}

TEST(CudaMultiply, multiplies_matrices_of_odd_shapes) {
  for (const uint32_t rows : {1u, 2u, 15u, 16u, 17u, 64u, 67u}) {
    expect_product(Input::bf16, {rows, 70, 72});
    expect_product(Input::f32, {rows, 70, 72});
  }
  for (const int n : {1, 7, 8, 63, 64, 65, 129}) expect_product(Input::bf16, {3, n, 40});
  for (const int k : {1, 8, 15, 16, 31, 32, 33, 96, 100, 130}) {
    expect_product(Input::bf16, {3, 9, k});
    expect_product(Input::f32, {3, 9, k});
  }
}

// A grid has at most 65,535 blocks along y.
TEST(CudaMultiply, takes_more_rows_than_a_grid_is_high) {
  expect_product(Input::f32, {70'000, 1, 1});
  expect_product(Input::bf16, {70'000, 1, 1});
}

TEST(CudaMultiply, adds_to_what_is_there) {
  const Problem p(5, 33, 48);
  for (const Input type : {Input::bf16, Input::f32}) {
    const std::vector<float> y = multiply(type, p, true);
    for (uint32_t row = 0; row < p.rows; ++row) {
      for (int column = 0; column < p.n; ++column) {
        const size_t at = row * static_cast<size_t>(p.n) + column;
        EXPECT_NEAR(y[at], p.y[at] + 0.5 * p.expected(row, column), 1e-4);
      }
    }
  }
}

TEST(CudaMultiply, gives_a_row_the_same_bits_among_any_rows) {
  const Problem all(67, 70, 100);
  for (const Input type : {Input::bf16, Input::f32}) {
    const std::vector<float> whole = multiply(type, all);
    for (const uint32_t rows : {1u, 16u, 17u, 33u}) {
      const Problem some = all.first(rows);
      const std::vector<float> part = multiply(type, some, false, rows);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << rows << " rows";
    }
  }
}

constexpr ProductTiles kManyTiles[] = {ProductTiles::narrow, ProductTiles::wide};

TEST(CudaMultiply, multiplies_many_rows_of_odd_shapes) {
  for (const ProductTiles tiles : kManyTiles) {
    for (const uint32_t rows : {1u, 65u, 128u, 129u, 200u}) {
      expect_product(Input::bf16, {rows, 70, 72}, tiles);
    }
    for (const int n : {1, 127, 128, 257}) expect_product(Input::bf16, {130, n, 40}, tiles);
    for (const int k : {1, 8, 31, 33, 96, 100, 130, 161}) {
      expect_product(Input::bf16, {66, 9, k}, tiles);
    }
  }
}

// 17 tiles of rows are more than blocks go down before they go across.
TEST(CudaMultiply, makes_every_tile_of_very_many_rows) {
  for (const ProductTiles tiles : kManyTiles) expect_product(Input::bf16, {2100, 260, 8}, tiles);
}

TEST(CudaMultiply, chooses_larger_tiles_where_there_are_many_of_them) {
  MultiplyCall call = {};
  call.n_out = 4096;
  for (const uint32_t rows : {1u, 16u, 17u, 64u, 65u, 256u, 257u, 1024u}) {
    call.rows = rows;
    EXPECT_EQ(tiles_of(call), rows <= 16    ? ProductTiles::rows_16
                              : rows <= 128 ? ProductTiles::rows_64
                              : rows < 1024 ? ProductTiles::narrow
                                            : ProductTiles::wide)
        << rows << " rows";
  }
  call.rows = 100;
  EXPECT_EQ(tiles_of(call, 8), ProductTiles::wide);
}

TEST(CudaMultiply, adds_to_what_is_there_in_many_rows) {
  for (const int n : {33, 34}) {
    const Problem p(67, n, 48);
    const std::vector<float> small = multiply(Input::bf16, p, true);
    for (const ProductTiles tiles : kManyTiles) {
      EXPECT_EQ(multiply(Input::bf16, p, true, 2, tiles), small) << n << " columns";
    }
  }
}

// Sums beyond one piece, in rows that different kernels make.
TEST(CudaMultiply, adds_up_pieces_of_k_in_the_same_order_in_all_kernels) {
  for (const int k : {1024, 1025, 2100, 9000}) {
    const Problem all(130, 9, k);
    const std::vector<float> whole = multiply(Input::bf16, all, false, 1, ProductTiles::rows_64);
    for (const ProductTiles tiles : kManyTiles) {
      EXPECT_EQ(multiply(Input::bf16, all, false, 2, tiles), whole) << "K " << k;
    }
    for (const uint32_t rows : {1u, 3u, 8u, 9u, 16u, 17u, 64u, 65u}) {
      const Problem some = all.first(rows);
      const std::vector<float> part = multiply(Input::bf16, some, false, rows);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << rows << " rows, K " << k;
    }
  }
}

// Ones that a large sum would swallow one by one are a piece of their own.
TEST(CudaMultiply, begins_each_piece_of_k_with_zero) {
  Problem p(1, 1, 2 * 1024);
  p.bias = {0.0f};
  p.x.assign(p.x.size(), 1.0f);
  p.w.assign(p.w.size(), 0.0f);
  p.w[0] = 0x1p24f;
  for (size_t i = 1024; i < p.w.size(); i += 16) p.w[i] = 1.0f;
  for (const ProductTiles tiles :
       {ProductTiles::rows_16, ProductTiles::rows_64, ProductTiles::narrow, ProductTiles::wide}) {
    EXPECT_EQ(multiply(Input::bf16, p, false, 1, tiles).at(0), 0x1p24f + 64.0f);
  }
}

// Weights in codes with a scale for each group, here row by row.
enum class Code : uint8_t { nibbles, bytes, floats };
struct Quantised {
  // As kernels read them.
  template <typename T>
  std::vector<T> by_groups(const std::vector<T>& by_rows) const {
    const size_t count = by_rows.size() / groups;
    std::vector<T> made;
    for (int i = 0; i < groups; ++i) {
      for (size_t row = 0; row < count; ++row) made.push_back(by_rows[row * groups + i]);
    }
    return made;
  }

  Code code;
  int bits, group, groups;
  std::vector<uint8_t> bytes, zeros;
  std::vector<float> scales;
  std::vector<double> w;

  Quantised(const Problem& p, Code coded, int group_elements, bool with_zeros)
      : code(coded),
        bits(coded == Code::nibbles ? 4 : 8),
        group(group_elements),
        groups((p.k + group - 1) / group) {
    Numbers numbers(7);
    const auto stride = static_cast<int>(quant_stride(p.k, bits));
    bytes.resize(static_cast<size_t>(p.n) * stride);
    for (int i = 0; i < p.n * groups; ++i) {
      const float scale = 0.01f + 0.005f * numbers.next();
      // Of floats they are no halves, and their sums as large as those of integers.
      scales.push_back(code == Code::floats ? scale / 20 : to_float(to_half(scale)));
      if (with_zeros) zeros.push_back(static_cast<uint8_t>(numbers.below(bits == 4 ? 16 : 256)));
    }
    for (int i = 0; i < p.n * p.k; ++i) {
      const int row = i / p.k, k = i % p.k, own = row * groups + k / group;
      const int place = quant_place(k, bits);
      if (code == Code::floats) {
        const auto q = static_cast<uint8_t>(numbers.below(256));
        bytes[row * stride + place] = q;
        w.push_back(double{of_8_bits(q)} * double{scales[own]});
        continue;
      }
      const int q = bits == 4 ? static_cast<int>(numbers.below(16))
                              : static_cast<int>(numbers.below(255)) - 127;
      if (bits == 4) {
        bytes[row * stride + place / 2] |= static_cast<uint8_t>(q << (4 * (place % 2)));
      } else {
        bytes[row * stride + place] = static_cast<uint8_t>(q);
      }
      const int byte = with_zeros ? zeros[own] : bits == 4 ? 8 : 0;
      const int zero = bits == 4 ? byte : static_cast<int8_t>(byte);
      w.push_back((q - zero) * double{scales[own]});
    }
  }
  const void* scales_on(EmulatedDevice& device) const {
    const std::vector<float> all = by_groups(scales);
    if (code == Code::floats) return device.upload(all, "scales");
    std::vector<uint16_t> halves;
    for (const float scale : all) halves.push_back(to_half(scale).bits);
    return device.upload(halves, "scales");
  }
};
constexpr Code kCodes[] = {Code::nibbles, Code::bytes, Code::floats};

// A call that multiplies x with W, which has scales and zeros.
QuantCall quant_call(EmulatedDevice& device, const Problem& p, const Quantised& q) {
  QuantCall call = {};
  call.call.rows = p.rows;
  call.call.n_out = p.n;
  call.call.k_in = p.k;
  call.call.x_stride = up_to(p.k, 8);
  call.call.w_stride = static_cast<int>(quant_stride(p.k, q.bits));
  call.call.y_stride = p.n;
  call.call.x = device.upload(rounded(padded(p.x, p.k, call.call.x_stride, NAN)), "x");
  call.call.w = device.upload(q.bytes, "w");
  call.quant.scales = q.scales_on(device);
  call.quant.zeros = q.zeros.empty() ? nullptr : device.upload(q.by_groups(q.zeros), "zeros");
  call.quant.groups = q.groups;
  call.quant.group = q.group;
  call.quant.bits = q.bits;
  call.quant.floats = q.code == Code::floats;
  call.quant.rows = p.n;
  return call;
}

std::vector<float> multiply(const Problem& p, const Quantised& q, uint64_t seed = 1,
                            ProductTiles tiles = ProductTiles::by_shape) {
  EmulatedDevice device(seed);
  QuantCall call = quant_call(device, p, q);
  call.call.tiles = tiles;
  call.call.y = device.make<float>(p.y.size(), "y");
  EXPECT_EQ(launch_multiply_quant(nullptr, call), 0);
  return device.download(call.call.y, p.y.size());
}

TEST(CudaMultiply, multiplies_with_integers_and_their_scales) {
  for (const Code code : kCodes) {
    for (const int group : {32, 64, 128}) {
      for (const uint32_t rows : {1u, 5u, 18u}) {
        const Problem p(rows, 67, 160);
        const Quantised q(p, code, group, group == 64 && code != Code::floats);
        const std::vector<float> y = multiply(p, q);
        for (uint32_t row = 0; row < rows; ++row) {
          for (int column = 0; column < p.n; ++column) {
            double sum = 0.0;
            for (int i = 0; i < p.k; ++i) sum += double{p.x[row * p.k + i]} * q.w[column * p.k + i];
            ASSERT_NEAR(y[row * p.n + column], sum, 2e-4)
                << q.bits << " bits, groups of " << group << ", row " << row << ", column "
                << column;
          }
        }
      }
    }
  }
}

// x of so many rows and pieces of K does not fit at once; nor do a warp's columns.
TEST(CudaMultiply, brings_long_rows_with_integers_in_parts) {
  for (const uint32_t rows : {6u, 8u}) {
    const Problem all(20, 19, 6 * 1024 + 130);
    for (const int group : {32, 64, 96, 128, 256}) {
      const Quantised q(all, Code::nibbles, group, true);
      const std::vector<float> whole = multiply(all, q);
      const Problem some = all.first(rows);
      const std::vector<float> part = multiply(some, q, rows);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()))
          << "groups of " << group << ", " << rows << " rows";
    }
  }
}

TEST(CudaMultiply, gives_a_row_the_same_bits_with_integers_too) {
  for (const auto& [k, group] :
       {std::pair(100, 32), std::pair(1090, 128), std::pair(2208, 96), std::pair(2100, 2112)}) {
    const Problem all(20, 67, k);
    for (const Code code : kCodes) {
      const Quantised q(all, code, group, code != Code::floats);
      const std::vector<float> whole = multiply(all, q);
      for (const uint32_t rows : {1u, 3u, 8u, 9u, 16u}) {
        const Problem some = all.first(rows);
        const std::vector<float> part = multiply(some, q, rows);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()))
            << q.bits << " bits, K " << k << ", groups of " << group << ", " << rows << " rows";
      }
    }
  }
}

// Groups of all kinds of segments; lanes that have a piece of K fewer than others, or a short one;
// columns of one group of warps and of several, all there or not; rows of two tiles.
TEST(CudaMultiply, gives_the_same_bits_with_integers_in_all_kernels) {
  struct Case {
    uint32_t rows;
    int n, k, group;
  };
  for (const Case c : {Case{35, 67, 100, 32},
                       {70, 19, 2208, 96},
                       {20, 64, 5000, 128},
                       {33, 19, 9 * 1024 + 40, 64},
                       {130, 130, 1090, 256},
                       {65, 9, 2100, 2112}}) {
    const Problem all(c.rows, c.n, c.k);
    for (const Code code : kCodes) {
      const Quantised q(all, code, c.group, code != Code::floats && c.group != 256);
      const std::vector<float> whole = multiply(all, q, 1, ProductTiles::rows_64);
      const auto expect_same = [&](uint32_t rows, ProductTiles tiles) {
        const Problem some = all.first(rows);
        const std::vector<float> part = multiply(some, q, rows, tiles);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()))
            << q.bits << " bits, K " << c.k << ", groups of " << c.group << ", " << rows
            << " rows, tiles " << static_cast<int>(tiles);
      };
      expect_same(8, ProductTiles::rows_16);
      expect_same(13, ProductTiles::rows_64);
      expect_same(17, ProductTiles::rows_64);
      expect_same(c.rows, ProductTiles::narrow);
    }
  }
}

// A block's columns are four groups of warps where there are as many of them as multiprocessors.
TEST(CudaMultiply, gives_the_same_bits_in_blocks_of_few_and_of_many_columns) {
  const Problem all(17, 128 * 120, 32);
  MultiplyCall call = {};
  call.rows = all.rows;
  call.n_out = all.n;
  call.k_in = all.k;
  ASSERT_EQ(some_tile(call).columns, 128);
  EXPECT_EQ(multiply(Input::bf16, all, false, 1, ProductTiles::rows_64),
            multiply(Input::bf16, all, false, 2, ProductTiles::narrow));
  for (const Code code : kCodes) {
    const Quantised q(all, code, 32, code == Code::nibbles);
    const std::vector<float> whole = multiply(all, q, 1, ProductTiles::rows_64);
    EXPECT_EQ(multiply(all, q, 2, ProductTiles::narrow), whole) << q.bits << " bits";
    const std::vector<float> few = multiply(all.first(3), q, 3, ProductTiles::rows_64);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), whole.begin())) << q.bits << " bits";
  }
}

// Widths of whole and of broken groups of columns; x that fits at once, and x that does not.
TEST(CudaMultiply, makes_of_a_gate_and_an_up_what_two_launches_make) {
  struct Case {
    uint32_t rows;
    int width, k;
  };
  for (const Case c :
       {Case{1, 48, 1090}, {3, 33, 160}, {2, 16, 160}, {8, 33, 1090}, {7, 19, 5000}}) {
    for (const Code code : kCodes) {
      const Problem p(c.rows, 2 * c.width, c.k);
      const Quantised q(p, code, 32, code != Code::floats);
      for (const ActivationKind kind : {ActivationKind::silu, ActivationKind::gelu_tanh}) {
        EmulatedDevice device(c.rows);
        const auto stride = static_cast<size_t>(up_to(c.width, 8));
        QuantCall call = quant_call(device, p, q);
        call.call.bias = device.upload(p.bias, "bias");
        const auto made = [&](void* out) {
          return device.download(static_cast<uint16_t*>(out), c.rows * stride);
        };
        float* const y = device.make<float>(p.y.size(), "y");
        void* const apart =
            device.upload_variable(std::vector<uint16_t>(c.rows * stride, 7), "apart");
        void* const at_once =
            device.upload_variable(std::vector<uint16_t>(c.rows * stride, 7), "at once");
        call.call.y = y;
        EXPECT_EQ(launch_multiply_quant(nullptr, call), 0);
        EXPECT_EQ(launch_gate(nullptr, y, y + c.width, apart, Input::bf16, c.rows, c.width,
                              2 * c.width, static_cast<int>(stride), kind),
                  0);
        call.call.y = nullptr;
        call.gated = {at_once, static_cast<int>(stride), kind};
        EXPECT_EQ(launch_multiply_quant(nullptr, call), 0);
        EXPECT_EQ(made(at_once), made(apart))
            << c.rows << " rows, width " << c.width << ", K " << c.k;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cuda::test
