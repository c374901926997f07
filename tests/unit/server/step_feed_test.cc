// The ring of steps between the step thread and those who watch.
#include "core/server/steps/step_feed.h"

#include <gtest/gtest.h>

#include <thread>

namespace tenon::server {
namespace {

ObservedStep step(uint64_t id, size_t blocks = 0) {
  ObservedStep made;
  made.record.step_id = id;
  made.blocks.resize(blocks);
  return made;
}

std::vector<uint64_t> ids(const StepFeed::Reader::Taken& taken) {
  std::vector<uint64_t> all;
  for (const StepFeed::KeptStep& kept : taken.steps) all.push_back(kept->record.step_id);
  return all;
}

using Ids = std::vector<uint64_t>;

TEST(StepFeed, wants_steps_while_somebody_reads) {
  StepFeed feed;
  EXPECT_FALSE(feed.wants_steps());
  auto reader = feed.open({}, [] {});
  EXPECT_TRUE(feed.wants_steps());
  reader.reset();
  EXPECT_FALSE(feed.wants_steps());
}

TEST(StepFeed, gives_every_reader_the_steps_from_then_on) {
  StepFeed feed;
  auto first = feed.open({}, [] {});
  feed.on_step(step(1));
  auto second = feed.open({}, [] {});
  feed.on_step(step(2));
  EXPECT_EQ(ids(first->take(10)), (Ids{1, 2}));
  EXPECT_EQ(ids(second->take(10)), (Ids{2}));
  EXPECT_EQ(ids(second->take(10)), (Ids{}));
}

TEST(StepFeed, goes_on_behind_a_step_that_a_reader_names) {
  StepFeed feed;
  for (uint64_t id : {3, 5, 8}) feed.on_step(step(id));
  EXPECT_EQ(ids(feed.open(4, [] {})->take(10)), (Ids{5, 8}));
  EXPECT_EQ(ids(feed.open(0, [] {})->take(10)), (Ids{3, 5, 8}));
  EXPECT_EQ(ids(feed.open(8, [] {})->take(10)), (Ids{}));
}

TEST(StepFeed, keeps_the_newest_and_counts_what_a_slow_reader_lost) {
  StepFeed feed({.steps = 4});
  auto slow = feed.open({}, [] {});
  for (uint64_t id = 1; id <= 10; ++id) feed.on_step(step(id));
  const auto taken = slow->take(10);
  EXPECT_EQ(taken.dropped, 6u);
  EXPECT_EQ(ids(taken), (Ids{7, 8, 9, 10}));
  feed.on_step(step(11));
  const auto next = slow->take(10);
  EXPECT_EQ(next.dropped, 0u);
  EXPECT_EQ(ids(next), (Ids{11}));
}

TEST(StepFeed, is_bounded_in_bytes_and_always_keeps_the_newest) {
  StepFeed feed({.bytes = 4000 * sizeof(BlockId)});
  auto reader = feed.open({}, [] {});
  for (uint64_t id = 1; id <= 5; ++id) feed.on_step(step(id, 1500));
  EXPECT_EQ(ids(reader->take(10)), (Ids{4, 5}));
  feed.on_step(step(6, 9000));
  EXPECT_EQ(ids(reader->take(10)), (Ids{6}));
}

TEST(StepFeed, gives_no_more_than_asked_for_at_once) {
  StepFeed feed;
  auto reader = feed.open({}, [] {});
  for (uint64_t id = 1; id <= 5; ++id) feed.on_step(step(id));
  EXPECT_EQ(ids(reader->take(2)), (Ids{1, 2}));
  EXPECT_EQ(ids(reader->take(2)), (Ids{3, 4}));
}

TEST(StepFeed, wakes_a_reader_once_that_found_nothing) {
  StepFeed feed;
  int woken = 0;
  auto reader = feed.open({}, [&] { ++woken; });
  feed.on_step(step(1));
  EXPECT_EQ(woken, 0) << "it has not looked yet";
  (void)reader->take(10);
  (void)reader->take(10);
  feed.on_step(step(2));
  feed.on_step(step(3));
  EXPECT_EQ(woken, 1);
}

TEST(StepFeed, refuses_readers_beyond_its_limit) {
  StepFeed feed({.readers = 2});
  auto first = feed.open({}, [] {});
  auto second = feed.open({}, [] {});
  EXPECT_EQ(feed.open({}, [] {}), nullptr);
  first.reset();
  EXPECT_NE(feed.open({}, [] {}), nullptr);
}

TEST(StepFeed, ends_for_its_readers_behind_what_they_have_not_taken) {
  StepFeed feed;
  int woken = 0;
  auto reader = feed.open({}, [&] { ++woken; });
  (void)reader->take(1);
  feed.on_step(step(1));
  feed.on_step(step(2));
  feed.close();
  EXPECT_FALSE(reader->take(1).closed);
  EXPECT_TRUE(reader->take(1).closed);
  EXPECT_EQ(woken, 1);
}

TEST(StepFeed, may_go_before_its_readers) {
  std::unique_ptr<StepFeed::Reader> reader;
  {
    StepFeed feed;
    reader = feed.open({}, [] {});
    feed.on_step(step(1));
  }
  EXPECT_EQ(ids(reader->take(10)), (Ids{1}));
}

TEST(StepFeed, takes_steps_on_one_thread_while_others_read) {
  constexpr uint64_t kSteps = 5000;
  StepFeed feed({.steps = 16});
  std::atomic<bool> done{false};
  std::vector<std::unique_ptr<StepFeed::Reader>> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(feed.open({}, [] {}));
  std::vector<std::thread> threads;
  std::atomic<uint64_t> seen{0};
  for (auto& reader : readers) {
    threads.emplace_back([&seen, &done, &reader] {
      for (uint64_t last = 0;;) {
        const bool was_done = done;
        const auto taken = reader->take(7);
        seen += taken.dropped + taken.steps.size();
        for (const uint64_t id : ids(taken)) {
          EXPECT_GT(id, last);
          last = id;
        }
        if (was_done && taken.steps.empty()) return;
      }
    });
  }
  for (uint64_t id = 1; id <= kSteps; ++id) feed.on_step(step(id));
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 3 * kSteps) << "every step was taken or counted";
}

}  // namespace
}  // namespace tenon::server
