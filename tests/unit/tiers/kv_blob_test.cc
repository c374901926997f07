#include "core/tiers/kv_blob.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "core/base/machine/process_memory.h"

namespace tenon {
namespace {

bool is_all(const KvBlob& blob, std::byte value) {
  return std::ranges::all_of(blob, [value](std::byte byte) { return byte == value; });
}

TEST(KvBlob, holds_what_was_put_there_whatever_its_size) {
  std::vector<KvBlob> blobs;
  for (const size_t bytes : {0u, 1u, 4095u, 65535u, 65536u, 65537u, 524288u, 8388608u, 9000001u}) {
    for (int i = 0; i < 3; ++i) {
      blobs.emplace_back(bytes, static_cast<std::byte>(blobs.size()));
    }
  }
  for (size_t i = 0; i < blobs.size(); ++i)
    EXPECT_TRUE(is_all(blobs[i], static_cast<std::byte>(i)));
}

TEST(KvBlob, grows_and_is_copied_as_a_vector_is) {
  KvBlob blob(70'000, std::byte{3});
  blob.resize(300'000, std::byte{4});
  const KvBlob copied = blob;
  blob.clear();
  blob.shrink_to_fit();
  EXPECT_TRUE(is_all({copied.begin(), copied.begin() + 70'000}, std::byte{3}));
  EXPECT_TRUE(is_all({copied.begin() + 70'000, copied.end()}, std::byte{4}));
  EXPECT_EQ(blob_of(copied), copied);
  EXPECT_EQ(blob_of({}), KvBlob());
  EXPECT_THROW((void)KvBlob(SIZE_MAX / 2), std::exception);
}

TEST(KvBlob, may_be_freed_by_another_thread_than_made_it) {
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed] {
      for (uint32_t i = 0; i < 40; ++i) {
        KvBlob blob((i % 7 + 1) * 50'000, static_cast<std::byte>(seed + i));
        std::thread([blob = std::move(blob), seed, i] {
          EXPECT_TRUE(is_all(blob, static_cast<std::byte>(seed + i)));
        }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What was kept for the next ones stays; all else goes back to the system.
TEST(KvBlob, gives_its_memory_back) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what ThreadSanitizer notes of the memory stays, and counts";
#endif
  const auto held = [] { return process_memory().anonymous_bytes; };
  const uint64_t before = held();
  {
    std::vector<KvBlob> blobs;
    for (int i = 0; i < 1000; ++i) blobs.emplace_back(size_t{512} << 10, std::byte{1});
    EXPECT_GT(held(), before + (uint64_t{400} << 20));
  }
  EXPECT_LE(held(), before + kKeptBlobBytes + (uint64_t{16} << 20));
}

}  // namespace
}  // namespace tenon
