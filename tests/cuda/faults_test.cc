// What a driver reports fails the requests of that step, with its sentence; those that come later
// get the tokens that they always get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/rig/step_loop.h"

namespace tenon::cuda::test {
namespace {

using testing::HasSubstr;

constexpr const char* kFault = "a copy failed on the device: an emulated fault";

const std::vector<Answer>& answers_without_faults() {
  static const std::vector<Answer> kAnswers = StepLoop({}).run();
  return kAnswers;
}

// Runs requests of which some fail, and the same requests once more.
void expect_recovery(const LoopCase& c, const std::function<void(TestDriver&)>& break_it) {
  LoopCase breaking = c;
  uint32_t plans = 0;
  TestDriver* driver = nullptr;
  breaking.on_plan = [&](uint64_t) {
    if (++plans == 4) break_it(*driver);
  };
  StepLoop loop(breaking);
  driver = &loop.driver();
  uint32_t failed = 0;
  for (const Answer& answer : loop.run()) {
    if (answer.message.empty()) continue;
    ++failed;
    EXPECT_THAT(answer.message, HasSubstr(kFault));
  }
  EXPECT_GT(failed, 0u);
  EXPECT_EQ(loop.run(), answers_without_faults());
}

class DriverFaults : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Steps, DriverFaults, testing::Bool(), [](const auto& test) {
  return test.param ? "ahead_and_captured" : "one_by_one";
});

TEST_P(DriverFaults, of_what_is_put_on_the_queue_fail_one_step) {
  const LoopCase c{.plan_ahead = GetParam(), .graph_bytes = GetParam() ? kGraphRoom : 0};
  // The first copy of a step, one in its middle, and those after its kernels.
  for (const uint64_t operations : {1u, 6u, 17u}) {
    SCOPED_TRACE(operations);
    expect_recovery(c, [&](TestDriver& driver) { driver.fail_call(operations, kFault); });
  }
}

#ifndef TENON_CUDA_TESTS_ON_A_GPU
TEST_P(DriverFaults, of_what_runs_fail_one_step) {
  const LoopCase c{.plan_ahead = GetParam(), .graph_bytes = GetParam() ? kGraphRoom : 0};
  expect_recovery(c, [](TestDriver& driver) { driver.fail_on_queue(kFault); });
}
#endif

}  // namespace
}  // namespace tenon::cuda::test
