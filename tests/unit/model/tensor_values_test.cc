#include "core/model/tensors/tensor_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kRows = 7, kColumns = 133;  // lanes and a rest

// [kRows, kColumns] of a type, at an address that is aligned to nothing.
class Stored {
 public:
  explicit Stored(DType dtype) : bytes_(1 + kRows * kColumns * dtype_bits(dtype) / 8) {
    view_.data = bytes_.data() + 1;
    view_.dtype = dtype;
    view_.rank = 2;
    view_.shape[0] = kRows;
    view_.shape[1] = kColumns;
    view_.stride[0] = kColumns;
  }
  void put(uint64_t index, float value) {
    std::byte* place = bytes_.data() + 1 + index * dtype_bits(view_.dtype) / 8;
    if (view_.dtype == DType::f32) {
      std::memcpy(place, &value, 4);
      return;
    }
    const uint16_t bits =
        view_.dtype == DType::f16 ? f16_from_float(value) : bf16_from_float(value);
    std::memcpy(place, &bits, 2);
  }
  TensorView view() const { return view_; }
  TensorView transposed() const {
    TensorView out = view_;
    std::swap(out.shape[0], out.shape[1]);
    std::swap(out.stride[0], out.stride[1]);
    return out;
  }

 private:
  std::vector<std::byte> bytes_;
  TensorView view_;
};

class LargestMagnitude : public testing::TestWithParam<DType> {};

TEST_P(LargestMagnitude, is_found_wherever_it_stands) {
  for (uint64_t at = 0; at < kRows * kColumns; ++at) {
    Stored stored(GetParam());
    stored.put((at + 5) % (kRows * kColumns), 2.0f);
    stored.put(at, -3.5f);
    ASSERT_EQ(largest_magnitude(stored.view()), 3.5f) << at;
    ASSERT_EQ(largest_magnitude(stored.transposed()), 3.5f) << at;
  }
}

TEST_P(LargestMagnitude, shows_what_is_no_finite_number) {
  for (const float value : {kInfinity, -kInfinity, std::nanf("")}) {
    for (const uint64_t at : {uint64_t{0}, uint64_t{64}, kColumns - 1, kRows * kColumns - 1}) {
      Stored stored(GetParam());
      stored.put(at, value);
      EXPECT_FALSE(std::isfinite(largest_magnitude(stored.view()))) << value << " at " << at;
      EXPECT_FALSE(std::isfinite(largest_magnitude(stored.transposed()))) << value << " at " << at;
    }
  }
}

TEST_P(LargestMagnitude, of_shares_together_is_that_of_the_whole) {
  for (const uint32_t count : {1u, 2u, 3u, 7u, 20u}) {
    for (uint64_t row = 0; row < kRows; ++row) {
      Stored stored(GetParam());
      stored.put(row * kColumns + 100, 9.0f);
      uint32_t found = 0;
      for (uint32_t index = 0; index < count; ++index) {
        found += largest_magnitude(stored.view(), {index, count}) == 9.0f ? 1 : 0;
      }
      EXPECT_EQ(found, 1u) << row << " of " << count;
    }
  }
}

// Half of the columns, as where two matrices stand side by side.
TEST_P(LargestMagnitude, leaves_out_what_lies_in_gaps) {
  Stored stored(GetParam());
  stored.put(3 * kColumns + 10, 2.0f);
  stored.put(3 * kColumns + 120, kInfinity);
  TensorView left = stored.view();
  left.shape[1] = 66;
  EXPECT_EQ(largest_magnitude(left), 2.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, LargestMagnitude,
                         testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace tenon
