#include "core/base/threads/worker_pool.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <limits>
#include <numeric>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/base/machine/cpu_cores.h"
#include "core/base/threads/heavy_fence.h"

namespace tenon {
namespace {

std::unique_ptr<WorkerPool> pool_of(uint32_t threads) {
  auto pool = WorkerPool::start({.threads = threads});
  EXPECT_TRUE(pool.ok());
  return *std::move(pool);
}

class WorkerPoolSizes : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Threads, WorkerPoolSizes, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(WorkerPoolSizes, every_worker_enters_every_run_once) {
  auto pool = pool_of(GetParam());
  ASSERT_EQ(pool->size(), GetParam());
  std::vector<int> entered(pool->size(), 0);
  for (int run = 0; run < 200; ++run) pool->run([&](uint32_t worker) { ++entered[worker]; });
  EXPECT_EQ(entered, std::vector<int>(pool->size(), 200));
}

TEST_P(WorkerPoolSizes, a_barrier_shows_what_all_workers_wrote_before_it) {
  auto pool = pool_of(GetParam());
  std::vector<uint32_t> written(pool->size(), 0);
  std::vector<uint32_t> wrong(pool->size(), 0);
  pool->run([&](uint32_t worker) {
    for (uint32_t turn = 1; turn <= 300; ++turn) {
      written[worker] = turn * (worker + 1);
      pool->barrier(worker);
      for (uint32_t other = 0; other < pool->size(); ++other) {
        wrong[worker] += written[other] != turn * (other + 1);
      }
      pool->barrier(worker);
    }
  });
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0u), 0u);
}

TEST(WorkerPool, workers_that_fell_asleep_wake_for_the_next_run) {
  auto pool = pool_of(3);
  std::atomic<int> entered{0};
  for (int run = 0; run < 20; ++run) {
    // Long enough for idle workers to go to sleep.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < until) {
    }
    pool->run([&](uint32_t) { ++entered; });
  }
  EXPECT_EQ(entered, 60);
}

// A governor that was told of so crowded a machine that it lets one worker in.
WorkerGovernor crowded_governor(uint32_t most) {
  WorkerGovernor governor(most);
  while (governor.workers() > 1) {
    const uint64_t wall = 10'000'000, all = governor.workers() * wall;
    governor.add({governor.workers(), 1000, wall, all / 4, all - all / 4});
  }
  return governor;
}

TEST_P(WorkerPoolSizes, runs_of_fewer_workers_alternate_with_runs_of_all) {
  auto pool = pool_of(GetParam());
  std::vector<uint32_t> entered(pool->size(), 0), met(pool->size(), 0);
  uint32_t expected_of_last = 0;
  for (uint32_t turn = 0; turn < 600; ++turn) {
    WorkerGovernor one = crowded_governor(pool->size()), all(pool->size());
    WorkerGovernor& governor = turn % 3 == 0 ? all : one;
    const uint32_t workers = governor.workers();
    std::atomic<uint32_t> inside{0};
    pool->run(governor, [&](uint32_t worker) {
      ++entered[worker];
      ++inside;
      pool->barrier(worker);
      met[worker] += inside == workers;
      pool->barrier(worker);
    });
    expected_of_last += pool->size() == 1 || turn % 3 == 0;
  }
  EXPECT_EQ(entered[0], 600u);
  EXPECT_EQ(entered.back(), expected_of_last);
  EXPECT_EQ(met, entered) << "a barrier waits for those who entered, and for nobody else";
}

TEST(WorkerPool, tells_a_governor_what_a_run_cost) {
  auto pool = pool_of(2);
  WorkerGovernor governor(2);
  // Worker 1 wants a processor all the time and gets none: it stands still outside any barrier. Two
  // runs suffice, unless others disturb the barriers as well.
  for (int run = 0; run < 100 && governor.workers() == 2; ++run) {
    pool->run(governor, [&](uint32_t worker) {
      for (int i = 0; i < 200; ++i) pool->barrier(worker);
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  }
  EXPECT_TRUE(governor.crowded());
  EXPECT_EQ(governor.workers(), 1u);
}

TEST(WorkerPool, who_waits_long_for_a_worker_that_is_late_uses_no_processor_on_a_crowded_machine) {
  auto pool = pool_of(2);
  WorkerGovernor governor(2);
  governor.add({2, 1, 10'000'000, 10'000'000, 10'000'000});
  ASSERT_TRUE(governor.crowded());
  ASSERT_EQ(governor.workers(), 2u);
  const auto cpu_ns = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  const auto before = cpu_ns();
  pool->run(governor, [](uint32_t worker) {
    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_LT(cpu_ns() - before, 10'000'000);
}

TEST(WorkerPool, a_worker_that_sleeps_by_itself_holds_nobody_up) {
  auto pool = pool_of(2);
  WorkerGovernor governor(2);
  governor.add({2, 1, 10'000'000, 10'000'000, 10'000'000});
  EXPECT_EQ(pool->held_up_ns(), 0);
  const auto begin = std::chrono::steady_clock::now();
  pool->run(governor, [](uint32_t worker) {
    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(pool->held_up_ns(), took.count() / 2);
}

// So many threads that compute on one core until the end of the block.
class Hogs {
 public:
  Hogs(int count, int core) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(core, &set);
      pinned_ = ::pthread_setaffinity_np(threads_.back().native_handle(), sizeof(set), &set) == 0 &&
                pinned_;
    }
  }
  bool pinned() const { return pinned_; }

 private:
  bool pinned_ = true;
  std::vector<std::jthread> threads_;
};

TEST(WorkerPool, a_worker_whose_processor_others_have_holds_the_caller_up) {
  if (usable_cores().size() < 2) GTEST_SKIP() << "one core";
  auto pool = pool_of(2);
  const Hogs hogs(3, usable_cores()[1]);  // worker 1 is pinned there
  if (!hogs.pinned()) GTEST_SKIP() << "threads cannot be pinned here";
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "no schedstat";
  EXPECT_EQ(pool->held_up_ns(), 0);
  const auto cpu_ns = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  };
  const auto begin = std::chrono::steady_clock::now();
  // The caller may be held up by programs on its own core instead, which is not counted.
  int runs = 0;
  for (; runs < 500 && pool->held_up_ns() < 100'000'000; ++runs) {
    WorkerGovernor governor(2);
    governor.add({2, 1, 10'000'000, 10'000'000, 10'000'000});
    ASSERT_EQ(governor.workers(), 2u);
    pool->run(governor, [&](uint32_t worker) {
      if (worker == 0) return;
      const auto end = cpu_ns() + 10'000'000;
      while (cpu_ns() < end) {
      }
    });
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(pool->held_up_ns(), 100'000'000);
  // The worker's own 10 ms a run are none of it.
  EXPECT_LT(pool->held_up_ns(), took.count() - runs * 9'000'000);
}

int core_of_caller_in(WorkerPool& pool, WorkerGovernor& governor) {
  int core = -1;
  pool.run(governor, [&](uint32_t worker) {
    if (worker == 0) core = ::sched_getcpu();
  });
  return core;
}

TEST(WorkerPool, the_caller_leaves_a_core_that_a_worker_stays_on) {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  auto pool = pool_of(2);
  cpu_set_t before, there, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&there);
  CPU_SET(cores[1], &there);
  const auto go_there = [&] {
    EXPECT_EQ(::sched_setaffinity(0, sizeof(there), &there), 0);
    EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
    return ::sched_getcpu() == cores[1];
  };
  // Whatever else the system moves meanwhile.
  int tries = 0, left = 0, stayed = 0;
  WorkerGovernor all(2), one = crowded_governor(2);
  for (int i = 0; i < 50; ++i) {
    if (!go_there()) continue;
    ++tries;
    left += core_of_caller_in(*pool, all) != cores[1];
    if (go_there()) stayed += core_of_caller_in(*pool, one) == cores[1];
  }
  EXPECT_GT(tries, 0);
  EXPECT_GE(left, tries - tries / 5);
  EXPECT_GT(stayed, 0) << "where no other worker enters it may stay";
  ASSERT_EQ(::sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "and it may use what it could use before";
  // Who may use that core alone stays there.
  ASSERT_EQ(::sched_setaffinity(0, sizeof(there), &there), 0);
  WorkerGovernor again(2);
  EXPECT_EQ(core_of_caller_in(*pool, again), cores[1]);
  ::sched_setaffinity(0, sizeof(before), &before);
}

// As in containers whose filter of system calls is strict.
bool forbid_membarrier() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Workers sleep at most barriers, since each is late for every fourth one. A wake that gets lost
// leaves the pool waiting for good.
void meet_while_others_sleep() {
  auto pool = pool_of(3);
  WorkerGovernor governor(3);
  governor.add({3, 1, 10'000'000, 10'000'000, 3'000'000});
  ASSERT_TRUE(governor.crowded());
  std::vector<uint32_t> met(3, 0);
  pool->run(governor, [&](uint32_t worker) {
    for (uint32_t turn = 0; turn < 2000; ++turn) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(turn % 60);
      while ((turn + worker) % 4 == 0 && std::chrono::steady_clock::now() < until) {
      }
      pool->barrier(worker);
      ++met[worker];
    }
  });
  EXPECT_EQ(met, std::vector<uint32_t>(3, 2000));
}

TEST(WorkerPool, no_wake_is_lost_at_barriers_where_workers_sleep) {
  meet_while_others_sleep();
}

TEST(WorkerPoolDeathTest, nor_where_the_system_makes_no_fence_for_other_threads) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ::alarm(60);
        if (!forbid_membarrier()) std::_Exit(2);
        if (enable_heavy_fences()) std::_Exit(3);
        meet_while_others_sleep();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(WorkerPool, starts_and_ends_without_a_run) {
  for (int i = 0; i < 50; ++i) pool_of(4);
}

TEST(WorkerPool, zero_threads_mean_one_for_each_usable_core) {
  EXPECT_EQ(pool_of(0)->size(), usable_cores().size());
}

TEST(WorkerPool, refuses_an_absurd_number_of_threads) {
  const auto pool = WorkerPool::start({.threads = 100000});
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(pool.status().message(), "100000 threads; expected at most 512");
}

// What arithmetic yields under the state of the calling worker: rounding and subnormals show.
std::vector<float> state_probe() {
  volatile float third = 3.0f;
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float quarter = 0.25f;
  return {1.0f / third, -1.0f / third, tiny * quarter};
}

TEST(WorkerPool, workers_compute_under_one_floating_point_state) {
  auto pool = pool_of(3);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  std::vector<std::vector<float>> seen(pool->size());
  pool->run([&](uint32_t worker) { seen[worker] = state_probe(); });
  EXPECT_EQ(std::fegetround(), FE_UPWARD) << "the caller's state is put back";
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[0][0], 1.0f / 3.0f);
}

}  // namespace
}  // namespace tenon
