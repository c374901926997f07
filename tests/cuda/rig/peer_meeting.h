// Where the queues of ranks, which are threads of a test, come to launches that wait for each
// other: the last one to come runs all of them together.
#pragma once

#include <gtest/gtest.h>
#include <tenon/cuda/emulator.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon::cuda::test {

class PeerMeeting {
 public:
  explicit PeerMeeting(uint32_t ranks) : launches_(ranks) {}

  // What the machine of a rank has for its `on_meeting`.
  int meet(uint32_t rank, MeetingLaunch launch) {
    std::unique_lock lock(mutex_);
    launches_[rank] = {std::move(launch)};
    if (++come_ == launches_.size()) {
      come_ = 0;
      ++meetings_;
      Emulator::run_together(launches_);  // what is found is in the machines
      changed_.notify_all();
      return 0;
    }
    // The machine may be busy with other things.
    const uint64_t own = meetings_;
    const bool came =
        changed_.wait_for(lock, std::chrono::minutes(10), [&] { return meetings_ > own; });
    EXPECT_TRUE(came) << "a rank has not come to a launch that others wait for";
    return came ? 0 : 1;
  }
  uint64_t meetings() const { return meetings_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<MeetingLaunch>> launches_;
  uint32_t come_ = 0;
  uint64_t meetings_ = 0;
};

}  // namespace tenon::cuda::test
