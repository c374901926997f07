// Kernels of several devices that wait for each other: what is in order, and what is a race.
#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tenon::cuda::test {
namespace {

constexpr uint32_t kDevices = 3;
constexpr uint32_t kThreads = 32;
constexpr uint32_t kRounds = 4;

enum class Mistake : uint32_t {
  none,
  no_barrier,
  no_acquire,
  no_barrier_after,
  one_slot,
  no_release
};

// What a device's kernels know: everybody's box of [2 turns][devices][kThreads], and flags of [2
// turns][devices].
struct World {
  Global<uint32_t> boxes[kDevices];
  Global<uint32_t> flags[kDevices];
  uint32_t own;
};

// Each device gives its number in each round to all, and sums up what it got.
__global__ void exchange(World world, Global<uint32_t> sums, uint32_t round, Mistake mistake) {
  const uint32_t turn = mistake == Mistake::one_slot ? 0 : round % 2;
  const uint32_t lane = threadIdx.x;
  // Backwards, so that no lane reads what it wrote.
  const auto place = [&](uint32_t of) { return (turn * kDevices + of) * kThreads; };
  for (uint32_t to = 0; to < kDevices; ++to) {
    world.boxes[to][place(world.own) + lane] = 100 * round + world.own;
  }
  if (mistake != Mistake::no_barrier) __syncthreads();
  if (lane < kDevices && !(mistake == Mistake::no_release && world.own == 1)) {
    store_release(world.flags[lane] + (round % 2 * kDevices + world.own), round);
  }
  if (lane < kDevices && mistake != Mistake::no_acquire) {
    wait_acquire(world.flags[world.own] + (round % 2 * kDevices + lane), round);
  }
  if (mistake != Mistake::no_barrier_after) __syncthreads();
  uint32_t sum = sums[lane];
  for (uint32_t of = 0; of < kDevices; ++of) {
    sum += world.boxes[world.own][place(of) + kThreads - 1 - lane];
  }
  sums[lane] = sum;
}

struct Device {
  explicit Device(uint64_t seed) : machine(seed) {
    box = make(2 * kDevices * kThreads, "box", false);
    flags = make(2 * kDevices, "flags", true);
    sums = make(kThreads, "sums", true);
    machine.on_meeting([this](MeetingLaunch launch) {
      launches.push_back(std::move(launch));
      return 0;
    });
  }
  uint32_t* make(uint32_t count, const std::string& name, bool zero) {
    auto* at = reinterpret_cast<uint32_t*>(machine.allocate(count * sizeof(uint32_t), name));
    const std::vector<uint32_t> zeros(count);
    if (zero) machine.copy_in(at, zeros.data(), count * sizeof(uint32_t));
    return at;
  }
  Emulator machine;
  uint32_t *box, *flags, *sums;
  std::vector<MeetingLaunch> launches;
};

// The first finding's kind; empty: the sums of all devices are right.
std::string outcome(Mistake mistake, uint64_t seed) {
  std::vector<std::unique_ptr<Device>> devices;
  for (uint32_t i = 0; i < kDevices; ++i) {
    devices.push_back(std::make_unique<Device>(seed * kDevices + i));
  }
  std::vector<std::vector<MeetingLaunch>> launches;
  for (uint32_t i = 0; i < kDevices; ++i) {
    Device& own = *devices[i];
    own.machine.use();
    World world;
    world.own = i;
    for (uint32_t j = 0; j < kDevices; ++j) {
      if (j != i) {
        EXPECT_TRUE(own.machine.reach(devices[j]->machine, devices[j]->box));
        EXPECT_TRUE(own.machine.reach(devices[j]->machine, devices[j]->flags));
      }
      world.boxes[j] = Global<uint32_t>(devices[j]->box);
      world.flags[j] = Global<uint32_t>(devices[j]->flags);
    }
    for (uint32_t round = 1; round <= kRounds; ++round) {
      launch({.name = "exchange", .block = {kThreads}, .meets = true}, exchange, world,
             Global<uint32_t>(own.sums), round, mistake);
    }
    launches.push_back(own.launches);
  }
  const bool clean = Emulator::run_together(launches);
  std::string found;
  for (const auto& device : devices) {
    for (const Finding& finding : device->machine.findings()) {
      if (found.empty()) found = finding_name(finding.kind);
    }
  }
  EXPECT_EQ(clean, found.empty());
  if (!clean) return found;
  uint32_t expected = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) expected += 3 * 100 * round + 3;
  for (const auto& device : devices) {
    std::vector<uint32_t> sums(kThreads);
    EXPECT_TRUE(device->machine.copy_out(sums.data(), device->sums, kThreads * sizeof(uint32_t)));
    EXPECT_EQ(sums, std::vector<uint32_t>(kThreads, expected));
  }
  return "";
}

void expect_found(Mistake mistake, const std::vector<std::string>& kinds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string found = outcome(mistake, seed);
    EXPECT_TRUE(std::ranges::find(kinds, found) != kinds.end()) << found << ", seed " << seed;
  }
}

TEST(Together, kernels_that_release_and_acquire_run_clean_in_any_order) {
  expect_found(Mistake::none, {""});
}

TEST(Together, what_is_released_without_a_barrier_is_a_race_or_not_there) {
  expect_found(Mistake::no_barrier, {"race", "not written"});
}

TEST(Together, what_nobody_acquired_is_a_race_or_not_there) {
  expect_found(Mistake::no_acquire, {"race", "not written"});
}

TEST(Together, what_one_thread_acquired_the_others_see_after_a_barrier) {
  expect_found(Mistake::no_barrier_after, {"race", "not written"});
}

TEST(Together, a_slot_that_is_written_before_it_was_read_is_a_race) {
  expect_found(Mistake::one_slot, {"race"});
}

TEST(Together, a_flag_that_nobody_releases_is_found_out) {
  expect_found(Mistake::no_release, {"stuck", "divergent barrier"});
}

}  // namespace
}  // namespace tenon::cuda::test
