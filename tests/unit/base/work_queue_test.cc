#include "core/base/threads/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "core/base/threads/worker_pool.h"

namespace tenon {
namespace {

// What one worker is handed until nothing is left.
std::vector<WorkRange> ranges_of(WorkQueue& queue, uint32_t worker, uint32_t call, uint32_t parts) {
  std::vector<WorkRange> ranges;
  for (WorkRange range; queue.next(worker, call, parts, range);) ranges.push_back(range);
  return ranges;
}

TEST(WorkQueue, a_worker_takes_half_of_what_is_left_of_its_own_from_the_front) {
  WorkQueue queue(2);
  WorkRange range;
  for (const auto& [first, last] : {std::pair{0u, 4u}, {4u, 6u}, {6u, 7u}, {7u, 8u}}) {
    ASSERT_TRUE(queue.next(0, 0, 16, range));
    EXPECT_EQ(range.first, first);
    EXPECT_EQ(range.last, last);
    EXPECT_EQ(range.count, 16u);
    EXPECT_EQ(range.worker, 0u);
  }
}

TEST(WorkQueue, a_worker_that_has_none_left_takes_half_of_anothers_from_the_back) {
  WorkQueue queue(2);
  WorkRange range;
  ASSERT_TRUE(queue.next(1, 0, 16, range));  // 8 … 11; 12 … 15 are left
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(queue.next(0, 0, 16, range));
  ASSERT_TRUE(queue.next(0, 0, 16, range));
  EXPECT_EQ(range.first, 14u);
  EXPECT_EQ(range.last, 16u);
  ASSERT_TRUE(queue.next(1, 0, 16, range));
  EXPECT_EQ(range.first, 12u);
  EXPECT_EQ(range.last, 13u);
}

TEST(WorkQueue, one_worker_is_handed_everything_when_the_others_never_come) {
  WorkQueue queue(3);
  for (uint32_t call = 0; call < 3; ++call) {
    std::vector<int> handed(20, 0);
    for (const WorkRange& range : ranges_of(queue, 1, call, 20)) {
      for (uint32_t part = range.first; part < range.last; ++part) ++handed[part];
    }
    EXPECT_EQ(handed, std::vector<int>(20, 1)) << "call " << call;
    EXPECT_TRUE(ranges_of(queue, 0, call, 20).empty());
  }
}

TEST(WorkQueue, fewer_parts_than_workers_are_handed_out_once) {
  WorkQueue queue(4);
  uint32_t handed = 0;
  for (uint32_t worker = 0; worker < 4; ++worker) {
    for (const WorkRange& range : ranges_of(queue, worker, 0, 2))
      handed += range.last - range.first;
  }
  EXPECT_EQ(handed, 2u);
}

TEST(WorkQueue, every_part_of_every_call_is_handed_out_once_among_threads) {
  constexpr uint32_t kThreads = 4, kCalls = 400, kParts = 37;
  auto pool = WorkerPool::start({.threads = kThreads});
  ASSERT_TRUE(pool.ok());
  WorkQueue queue(kThreads);
  std::vector<std::atomic<uint32_t>> handed(kCalls * kParts);
  (*pool)->run([&](uint32_t worker) {
    for (uint32_t call = 0; call < kCalls; ++call) {
      for (WorkRange range; queue.next(worker, call, kParts, range);) {
        for (uint32_t part = range.first; part < range.last; ++part) {
          handed[call * kParts + part].fetch_add(1);
        }
      }
      (*pool)->barrier(worker);
    }
  });
  for (size_t i = 0; i < handed.size(); ++i) {
    ASSERT_EQ(handed[i], 1u) << "call " << i / kParts << ", part " << i % kParts;
  }
}

// Numbers of calls are kept in 20 bits.
TEST(WorkQueue, numbers_of_calls_may_run_over) {
  WorkQueue queue(2);
  for (const uint32_t call : {(1u << 20) - 2, (1u << 20) - 1, 1u << 20, (1u << 20) + 1}) {
    uint32_t handed = 0;
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (const WorkRange& range : ranges_of(queue, worker, call, 9)) {
        handed += range.last - range.first;
      }
    }
    EXPECT_EQ(handed, 9u) << call;
  }
}

}  // namespace
}  // namespace tenon
