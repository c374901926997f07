#include "core/base/machine/guarded_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon {
namespace {

TEST(GuardedPages, are_zeroed_and_begin_where_they_are_to) {
  for (const size_t alignment : {size_t{4096}, size_t{2} << 20}) {
    for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5} << 20}) {
      const GuardedPages pages = map_guarded(bytes, alignment, 0);
      ASSERT_NE(pages.data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data) % alignment, 0u);
      EXPECT_TRUE(std::all_of(pages.data, pages.data + bytes,
                              [](std::byte byte) { return byte == std::byte{0}; }));
      std::memset(pages.data, 1, bytes);
      unmap(pages);
    }
  }
}

TEST(GuardedPages, of_more_than_there_are_addresses_are_refused) {
  EXPECT_EQ(map_guarded(SIZE_MAX, 4096, 0).data, nullptr);
  EXPECT_EQ(map_guarded(size_t{1} << 60, 4096, 0).data, nullptr);
}

TEST(GuardedPagesDeathTest, end_whoever_writes_far_beyond_them_at_once) {
  const GuardedPages pages = map_guarded(4096, 4096, 0);
  EXPECT_DEATH(std::memset(pages.data, 1, size_t{48} << 10), "");
  EXPECT_DEATH(pages.data[-1] = std::byte{1}, "");
  EXPECT_DEATH(pages.data[4096 + (size_t{200} << 10)] = std::byte{1}, "");
  unmap(pages);
}

TEST(GuardedVector, holds_what_vectors_hold) {
  GuardedVector<uint32_t> numbers;
  for (uint32_t i = 0; i < 5000; ++i) numbers.push_back(i);
  GuardedVector<uint32_t> copy = numbers;
  EXPECT_EQ(std::accumulate(copy.begin(), copy.end(), 0u), 5000u * 4999u / 2);
  numbers.clear();
  numbers.shrink_to_fit();
  EXPECT_EQ(copy.size(), 5000u);
}

TEST(GuardedVectorDeathTest, ends_whoever_writes_far_beyond_it_at_once) {
  GuardedVector<uint32_t> numbers(100);
  EXPECT_DEATH(std::fill_n(numbers.data(), 12 << 10, 7u), "");
  EXPECT_DEATH(std::fill_n(numbers.data() - 1200, 12, 7u), "");
}

}  // namespace
}  // namespace tenon
