#include "core/llm/step_jobs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace tenon::llm {
namespace {

TEST(StepJobs, run_in_their_order_and_those_that_they_post_come_after) {
  StepJobs jobs;
  std::vector<int> ran;
  EXPECT_TRUE(jobs.post([&] {
    ran.push_back(1);
    jobs.post([&] { ran.push_back(3); });
  }));
  EXPECT_TRUE(jobs.post([&] { ran.push_back(2); }));
  EXPECT_TRUE(ran.empty());
  jobs.run();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST(StepJobs, a_caller_hears_what_its_job_says) {
  StepJobs jobs;
  std::atomic<bool> ends = false;
  std::thread steps([&] {
    while (!ends) jobs.run();
  });
  EXPECT_TRUE(jobs.call([] { return Status(); }).ok());
  const Status status = jobs.call([] { return unsupported("no kernel"); });
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(status.message(), "no kernel");
  ends = true;
  steps.join();
}

// Also where it waits already.
TEST(StepJobs, a_caller_hears_that_the_steps_have_ended) {
  StepJobs jobs;
  auto held = std::make_shared<int>(1);
  std::atomic<bool> waits = false;
  Status status;
  std::thread caller([&, held] {
    waits = true;
    status = jobs.call([held] { return Status(); });
  });
  while (!waits) std::this_thread::yield();
  EXPECT_TRUE(jobs.post([] {}));
  jobs.close();
  caller.join();
  EXPECT_EQ(status.code(), StatusCode::failed);
  EXPECT_EQ(jobs.call([] { return Status(); }).code(), StatusCode::failed);
  EXPECT_FALSE(jobs.post([held] {}));
  EXPECT_EQ(held.use_count(), 1) << "a job that is not kept keeps nothing";
}

}  // namespace
}  // namespace tenon::llm
