#include "core/parallel/shared_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "core/parallel/column_cut.h"
#include "core/parallel/message.h"
#include "core/parallel/rank_watch.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::vector<RankPlace> places_of(uint32_t ranks) {
  return std::vector<RankPlace>(ranks, {"alpha", getpid(), ranks, 1});
}

std::shared_ptr<SharedMemory> memory_for(uint32_t ranks) {
  auto memory = SharedMemory::create(ranks, 1 << 16);
  EXPECT_TRUE(memory.ok());
  return *std::move(memory);
}

// Every rank a thread.
void run_ranks(uint32_t ranks, uint32_t spins, const std::function<void(Collective&)>& function) {
  const std::shared_ptr<SharedMemory> memory = memory_for(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective collective(memory,
                                  {.rank = rank, .places = places_of(ranks), .spins = spins});
      function(collective);
    });
  }
}

TEST(SharedCollectiveTest, a_room_is_one_memory_for_all_ranks_of_a_pipeline) {
  run_ranks(4, 0, [](Collective& collective) {
    auto& ranks = dynamic_cast<SharedCollective&>(collective);
    const std::vector<uint64_t> nothing(4, 0);
    std::vector<std::unique_ptr<SharedRoom>> rooms;
    for (uint8_t pipeline = 0; pipeline < 3; ++pipeline) {
      auto made = ranks.room(10'000);
      ASSERT_TRUE(made.ok()) << made.status().message();
      rooms.push_back(*std::move(made));
      ASSERT_GE(rooms.back()->bytes(), 10'000u);
      const uint32_t own = ranks.rank() * 2500;
      std::memset(rooms.back()->data() + own, pipeline * 4 + static_cast<int>(ranks.rank()), 2500);
      ranks.count_pipeline();
    }
    ASSERT_TRUE(ranks.exchange(nothing).ok());
    for (size_t pipeline = 0; pipeline < rooms.size(); ++pipeline) {
      for (size_t at = 0; at < 10'000; at += 499) {
        ASSERT_EQ(rooms[pipeline]->data()[at], std::byte(pipeline * 4 + at / 2500));
      }
    }
    ASSERT_TRUE(ranks.exchange(nothing).ok());
  });
}

TEST(SharedCollectiveTest, a_room_is_given_back_when_the_last_rank_leaves_it) {
  const std::shared_ptr<SharedMemory> memory = memory_for(2);
  const auto pages = [&] {
    struct stat status {};
    EXPECT_EQ(fstat(memory->descriptor(), &status), 0);
    return status.st_blocks;
  };
  SharedCollective one(memory, {.rank = 0, .places = places_of(2)});
  SharedCollective other(memory, {.rank = 1, .places = places_of(2)});
  const auto before = pages();
  {
    const auto first = one.room(1 << 20), second = other.room(1 << 20);
    ASSERT_TRUE(first.ok() && second.ok());
    std::memset((*first)->data(), 1, 1 << 20);
    EXPECT_EQ((*second)->data()[(1 << 20) - 1], std::byte{1});
    EXPECT_GT(pages(), before + (1 << 20) / 512 - 1);
  }
  EXPECT_LE(pages(), before);
  EXPECT_FALSE(one.room(uint64_t{1} << 41).ok());
}

TEST(SharedCollectiveTest, every_rank_sees_what_all_gave_exchange_after_exchange) {
  for (const uint32_t spins : {0u, 100u}) {
    run_ranks(4, spins, [](Collective& ranks) {
      const std::vector<uint64_t> bytes(4, sizeof(uint64_t));
      for (uint64_t turn = 0; turn < 500; ++turn) {
        const uint64_t own = turn * 100 + ranks.rank();
        std::memcpy(ranks.outgoing(), &own, sizeof(own));
        ASSERT_TRUE(ranks.exchange(bytes).ok());
        for (uint32_t rank = 0; rank < 4; ++rank) {
          uint64_t given = 0;
          std::memcpy(&given, ranks.incoming(rank), sizeof(given));
          ASSERT_EQ(given, turn * 100 + rank);
        }
      }
    });
  }
}

TEST(SharedCollectiveTest, messages_of_any_length_arrive_whole_and_in_order) {
  run_ranks(3, 0, [](Collective& ranks) {
    for (const size_t length : {0u, 1u, 1000u, SharedHeader::kPartBytes, 900'001u, 3u}) {
      std::vector<std::byte> message(length, std::byte(length % 251));
      if (ranks.rank() == 0) {
        ASSERT_TRUE(ranks.send(message).ok());
        continue;
      }
      const auto received = ranks.receive();
      ASSERT_TRUE(received.ok());
      EXPECT_EQ(*received, message);
    }
  });
}

TEST(SharedCollectiveTest, every_rank_gets_what_each_has_for_it) {
  run_ranks(3, 10, [](Collective& ranks) {
    for (uint32_t turn = 0; turn < 20; ++turn) {
      // Rank r has r + q + 1 numbers for rank q.
      std::vector<uint64_t> starts;
      for (uint64_t from = 0; from < 3; ++from) {
        starts.push_back(0);
        for (uint64_t to = 0; to < 3; ++to) {
          starts.push_back(starts.back() + (from + to + 1) * sizeof(uint32_t));
        }
      }
      auto* out = reinterpret_cast<uint32_t*>(ranks.outgoing());
      for (uint32_t to = 0; to < 3; ++to) {
        for (uint32_t i = 0; i < ranks.rank() + to + 1; ++i) {
          *out++ = turn * 1000 + ranks.rank() * 100 + to * 10 + i;
        }
      }
      ASSERT_TRUE(ranks.all_to_all(starts).ok());
      for (uint32_t from = 0; from < 3; ++from) {
        const auto* in = reinterpret_cast<const uint32_t*>(ranks.incoming(from) +
                                                           starts[from * 4 + ranks.rank()]);
        for (uint32_t i = 0; i < from + ranks.rank() + 1; ++i) {
          ASSERT_EQ(in[i], turn * 1000 + from * 100 + ranks.rank() * 10 + i);
        }
      }
    }
  });
}

TEST(SharedCollectiveTest, what_a_rank_gives_comes_to_the_next_in_order_and_beside_messages) {
  run_ranks(3, 0, [](Collective& ranks) {
    const uint32_t next = (ranks.rank() + 1) % 3, before = (ranks.rank() + 2) % 3;
    const auto values_of = [](uint32_t rank, size_t count) {
      std::vector<uint32_t> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = rank * 1'000'000 + static_cast<uint32_t>(i);
      return values;
    };
    // Longer than both slots together.
    for (const size_t count : {1u, 100u, 16'384u, 70'000u, 0u, 7u}) {
      if (ranks.rank() == 0) {
        ASSERT_TRUE(ranks.send(std::as_bytes(std::span("word"))).ok());
      }
      std::jthread giver([&] {
        const std::vector<uint32_t> values = values_of(ranks.rank(), count);
        EXPECT_TRUE(ranks.give(next, std::as_bytes(std::span(values))).ok());
      });
      std::vector<uint32_t> taken(count);
      ASSERT_TRUE(ranks.take(before, std::as_writable_bytes(std::span(taken))).ok());
      EXPECT_EQ(taken, values_of(before, count));
      if (ranks.rank() > 0) {
        ASSERT_TRUE(ranks.receive().ok());
      }
    }
  });
}

TEST(SharedCollectiveTest, texts_of_all_ranks_come_to_all_and_long_ones_are_cut) {
  run_ranks(3, 0, [](Collective& ranks) {
    const std::string own =
        ranks.rank() == 2 ? std::string(5000, 'x') : "rank " + std::to_string(ranks.rank());
    const auto texts = gather_texts(ranks, own);
    ASSERT_TRUE(texts.ok());
    EXPECT_EQ((*texts)[0], "rank 0");
    EXPECT_EQ((*texts)[1], "rank 1");
    EXPECT_EQ((*texts)[2], std::string(2040, 'x'));
  });
}

TEST(SharedCollectiveTest, a_rank_that_fails_ends_the_others_wait_with_its_words) {
  run_ranks(3, 0, [](Collective& ranks) {
    const std::vector<uint64_t> bytes(3, 8);
    if (ranks.rank() == 1) return ranks.fail("rank 1 on alpha has no memory");
    const Status met = ranks.exchange(bytes);
    EXPECT_EQ(met.message(), "rank 1 on alpha has no memory");
    EXPECT_EQ(ranks.exchange(bytes).message(), "rank 1 on alpha has no memory");
  });
}

// What a watch says of another process that `act` is done to.
std::string said_of_child(const std::function<void(pid_t)>& act) {
  const std::shared_ptr<SharedMemory> memory = memory_for(2);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();  // without a beat, as a stopped process
  }
  std::vector<RankPlace> places = places_of(2);
  places[1] = {"beta", child, 1, 1};
  std::mutex mutex;
  std::condition_variable changed;
  std::string said;
  std::string expected;
  act(child);
  {
    const RankWatch watch(memory, 0, places, [&](const std::string& fault, bool speaks) {
      const std::lock_guard lock(mutex);
      said = speaks ? fault : "silent";
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !said.empty(); });
  }
  waitpid(child, nullptr, 0);  // `act` has ended it, or the watch has
  return said;
}

TEST(RankWatchTest, a_killed_process_is_named_with_its_host) {
  const std::string said = said_of_child([](pid_t child) { kill(child, SIGKILL); });
  EXPECT_THAT(said, HasSubstr("rank 1 on beta (process "));
  EXPECT_THAT(said, HasSubstr(") has ended: it was killed"));
}

TEST(RankWatchTest, a_process_without_a_beat_is_named_with_its_host) {
  const std::string said = said_of_child([](pid_t) {});
  EXPECT_THAT(said, HasSubstr("rank 1 on beta (process "));
  EXPECT_THAT(said, HasSubstr(") has not run for 5 s: it is stopped, or its machine gives it"));
}

TEST(RankWatchTest, a_rank_that_left_is_not_missed) {
  const std::shared_ptr<SharedMemory> memory = memory_for(2);
  memory->header().ranks[1].state = RankState::left;
  memory->header().ranks[0].state = RankState::here;
  std::vector<RankPlace> places = places_of(2);
  places[1].process = 0x3fffffff;  // no process has this number
  bool said = false;
  {
    const RankWatch watch(memory, 0, places, [&](const std::string&, bool) { said = true; });
    // Its thread has looked at the others before its second beat.
    while (memory->header().ranks[0].beats < 2) std::this_thread::yield();
  }
  EXPECT_FALSE(said);
}

TEST(ColumnCutTest, shares_are_whole_units_that_cover_all_columns) {
  EXPECT_EQ(cut_columns(64, 16, 2), (ColumnStarts{0, 32, 64}));
  EXPECT_EQ(cut_columns(101, 16, 3), (ColumnStarts{0, 32, 64, 101}));
  EXPECT_EQ(cut_columns(20, 16, 4), (ColumnStarts{0, 0, 16, 16, 20}));
  EXPECT_EQ(cut_columns(1, 16, 2), (ColumnStarts{0, 0, 1}));
}

TEST(MessageTest, what_was_written_is_read_and_a_cut_message_is_not_whole) {
  MessageWriter writer;
  writer.number<uint32_t>(7);
  writer.array(std::span<const float>(std::vector<float>{1.5f, -2.0f}));
  writer.text("pipeline");
  MessageReader reader(writer.bytes());
  EXPECT_EQ(reader.number<uint32_t>(), 7u);
  EXPECT_EQ(reader.array<float>(), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(reader.text(), "pipeline");
  EXPECT_TRUE(reader.is_whole());
  MessageReader cut(writer.bytes().first(15));
  EXPECT_EQ(cut.number<uint32_t>(), 7u);
  EXPECT_TRUE(cut.array<float>().empty());
  EXPECT_FALSE(cut.is_whole());
}

}  // namespace
}  // namespace tenon
