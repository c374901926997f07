// Heads on their way to attention: rotation, and the way into caches of every kind.
#include <gtest/gtest.h>
#include <tenon/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/kv_row.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

constexpr uint32_t kRows = 3;
constexpr int kQueryHeads = 3, kKvHeads = 2, kBlockTokens = 4, kBlocks = 3;
constexpr uint32_t kBlockOf[] = {2, 0, 1}, kOffsetOf[] = {3, 0, 1};

DType dtype_of(CacheType type) {
  switch (type) {
    case CacheType::f32:
      return DType::f32;
    case CacheType::i8:
      return DType::i8;
    case CacheType::i4:
      return DType::i4;
    default:
      return DType::bf16;
  }
}

struct HeadsCase {
  CacheType type = CacheType::f32;
  int dim = 10;
  int half = 4;
  bool pairs = false;
  bool has_q = true, has_k = true, has_v = true;
  int k_first = 0;

  bool turns() const { return half > 0; }
};

// [rows, stride]: q, K and V side by side, and more.
struct Rows {
  int stride;
  std::vector<float> x;
  std::vector<float> angles;

  explicit Rows(const HeadsCase& c) : stride((kQueryHeads + 2 * kKvHeads) * c.dim + 3) {
    Numbers numbers(5);
    x = numbers.many(kRows * static_cast<uint64_t>(stride));
    for (uint32_t row = 0; row < kRows; ++row) {
      for (int i = 0; i < c.half; ++i) angles.push_back(std::cos(static_cast<float>(row + i)));
      for (int i = 0; i < c.half; ++i) angles.push_back(std::sin(static_cast<float>(row + i)));
    }
  }
  // A head of a row, turned from `first` on.
  std::vector<float> turned(const HeadsCase& c, uint32_t row, int head, int first) const {
    const auto from = x.begin() + static_cast<int64_t>(row) * stride + head * c.dim;
    std::vector<float> y(from, from + c.dim);
    for (int i = 0; i < c.half; ++i) {
      const float cosine = angles[row * 2 * c.half + i];
      const float sine = angles[row * 2 * c.half + c.half + i];
      const int low = first + (c.pairs ? 2 * i : i);
      const int high = first + (c.pairs ? 2 * i + 1 : i + c.half);
      y[low] = from[low] * cosine - from[high] * sine;
      y[high] = from[high] * cosine + from[low] * sine;
    }
    return y;
  }
};

struct Placed {
  std::vector<float> x;
  std::vector<uint8_t> k, v;
};

uint64_t row_bytes(const HeadsCase& c) {
  return kv_row_bytes(dtype_of(c.type), static_cast<uint32_t>(c.dim));
}

Placed place(const HeadsCase& c, const Rows& rows, uint64_t seed = 1) {
  EmulatedDevice device(seed);
  const std::vector<uint8_t> plane(kBlocks * kKvHeads * kBlockTokens * row_bytes(c), 0xee);
  float* x = device.upload_variable(rows.x, "rows");
  auto* k_cache = device.upload_variable(plane, "K");
  auto* v_cache = device.upload_variable(plane, "V");
  HeadsCall call = {};
  if (c.has_q) call.q = x;
  if (c.has_k) call.k = x + kQueryHeads * c.dim;
  if (c.has_v) call.v = x + (kQueryHeads + kKvHeads) * c.dim;
  if (c.turns()) call.angles = device.upload(rows.angles, "angles");
  call.blocks = device.upload<uint32_t>({kBlockOf, kBlockOf + kRows}, "blocks");
  call.offsets = device.upload<uint32_t>({kOffsetOf, kOffsetOf + kRows}, "offsets");
  call.k_cache = k_cache;
  call.v_cache = v_cache;
  call.cache = {c.type, kKvHeads, c.dim, kBlockTokens};
  call.rows = kRows;
  call.q_stride = call.kv_stride = rows.stride;
  call.q_heads = kQueryHeads;
  call.q_dim = c.dim;
  call.k_first = c.k_first;
  call.half = c.half;
  call.pairs = c.pairs;
  EXPECT_EQ(launch_place_heads(nullptr, call), 0);
  return {device.download(x, rows.x.size()), device.download(k_cache, plane.size()),
          device.download(v_cache, plane.size())};
}

std::vector<uint8_t> cache_row(const HeadsCase& c, const std::vector<float>& head) {
  std::vector<uint8_t> row(row_bytes(c));
  if (is_quantised(c.type)) {
    write_kv_row(dtype_of(c.type), head, reinterpret_cast<std::byte*>(row.data()));
  } else if (c.type == CacheType::f32) {
    std::memcpy(row.data(), head.data(), row.size());
  } else {
    std::memcpy(row.data(), rounded(head).data(), row.size());
  }
  return row;
}

// q where it stood, K and V in their blocks, and nothing else changed.
Placed expected(const HeadsCase& c, const Rows& rows) {
  const uint64_t bytes = row_bytes(c);
  Placed made;
  made.x = rows.x;
  made.k.assign(kBlocks * kKvHeads * kBlockTokens * bytes, 0xee);
  made.v = made.k;
  HeadsCase still = c;
  still.half = 0;
  for (uint32_t row = 0; row < kRows; ++row) {
    for (int head = 0; c.has_q && head < kQueryHeads; ++head) {
      const std::vector<float> y = rows.turned(c, row, head, 0);
      std::copy(y.begin(), y.end(),
                made.x.begin() + static_cast<int64_t>(row) * rows.stride + head * c.dim);
    }
    for (int head = 0; head < kKvHeads; ++head) {
      const uint64_t place =
          (kBlockOf[row] * kKvHeads + static_cast<uint32_t>(head)) * kBlockTokens + kOffsetOf[row];
      const auto put = [&](std::vector<uint8_t>& plane, const std::vector<float>& y) {
        const std::vector<uint8_t> own = cache_row(c, y);
        std::copy(own.begin(), own.end(), plane.begin() + static_cast<int64_t>(place * bytes));
      };
      if (c.has_k) put(made.k, rows.turned(c, row, kQueryHeads + head, c.k_first));
      if (c.has_v) put(made.v, rows.turned(still, row, kQueryHeads + kKvHeads + head, 0));
    }
  }
  return made;
}

void expect_placed(const HeadsCase& c) {
  SCOPED_TRACE("cache " + std::to_string(static_cast<int>(c.type)) + ", " + std::to_string(c.dim) +
               " elements, " + std::to_string(2 * c.half) + " turn" + (c.pairs ? " in pairs" : ""));
  const Rows rows(c);
  const Placed right = expected(c, rows);
  for (const uint64_t seed : {1u, 2u}) {
    const Placed got = place(c, rows, seed);
    EXPECT_EQ(got.x, right.x);
    EXPECT_EQ(got.k, right.k);
    EXPECT_EQ(got.v, right.v);
  }
}

constexpr CacheType kCacheTypes[] = {CacheType::f32, CacheType::bf16, CacheType::i8, CacheType::i4};

TEST(CudaHeads, are_turned_in_halves_and_pairs_on_their_way_into_every_cache) {
  for (const CacheType type : kCacheTypes) {
    for (const bool pairs : {false, true}) {
      expect_placed({.type = type, .dim = 10, .half = 4, .pairs = pairs});
      expect_placed({.type = type, .dim = 7, .half = 3, .pairs = pairs});
      expect_placed({.type = type, .dim = 64, .half = 32, .pairs = pairs});
      expect_placed({.type = type, .dim = 300, .half = 150, .pairs = pairs});
    }
  }
}

TEST(CudaHeads, have_only_the_parts_that_a_layer_has) {
  for (const CacheType type : kCacheTypes) {
    expect_placed({.type = type, .half = 0, .has_q = false});
    expect_placed({.type = type, .has_k = false, .has_v = false});
    expect_placed({.type = type, .has_v = false});
    expect_placed({.type = type, .has_q = false});
  }
}

TEST(CudaHeads, turn_at_their_end_where_k_begins_with_values) {
  for (const CacheType type : kCacheTypes) {
    for (const bool pairs : {false, true}) {
      expect_placed({.type = type, .dim = 21, .half = 3, .pairs = pairs, .k_first = 15});
    }
  }
}

TEST(CudaHeads, of_numbers_of_all_sizes_are_stored_as_the_boundary_defines_it) {
  for (const CacheType type : {CacheType::i8, CacheType::i4}) {
    for (const int dim : {64, 7, 33}) {
      SCOPED_TRACE(std::to_string(dim));
      const HeadsCase c{.type = type, .dim = dim, .half = 0, .has_q = false};
      Rows rows(c);
      const auto k = [&](uint32_t row, int head) {
        return rows.x.begin() + static_cast<int64_t>(row) * rows.stride +
               (kQueryHeads + head) * dim;
      };
      ASSERT_EQ(static_cast<uint64_t>(cache_row_bytes(type, dim)), row_bytes(c));
      std::fill_n(k(0, 0), dim, 0.0f);
      for (int i = 0; i < dim; ++i) k(0, 1)[i] = 3.0f + 0.001f * k(0, 1)[i];
      k(1, 0)[2] = INFINITY;
      k(1, 1)[5] = NAN;
      Placed right = expected(c, rows);
      Placed got = place(c, rows);
      for (int head = 0; head < kKvHeads; ++head) {  // any NaN is one
        const uint64_t place =
            (kBlockOf[1] * kKvHeads + static_cast<uint32_t>(head)) * kBlockTokens;
        const uint64_t scale = (place + kOffsetOf[1]) * row_bytes(c) +
                               static_cast<uint64_t>(cache_scale_at(type, dim));
        EXPECT_EQ(got.k[scale + 1] & 0x7f, 0x7f);
        for (const uint64_t at : {scale, scale + 1}) got.k[at] = right.k[at];
      }
      EXPECT_EQ(got.k, right.k);
      EXPECT_EQ(got.v, right.v);
    }
  }
}

}  // namespace
}  // namespace tenon::cuda::test
