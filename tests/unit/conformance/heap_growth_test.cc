// What counts as memory that is lost, and what does not.
#include "core/conformance/watch/heap_growth.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace tenon {
namespace {

class HeapGrowth : public testing::Test {
 protected:
  void SetUp() override {
    const uint64_t before = heap_bytes();
    const std::unique_ptr<char[]> some(new char[100'000]);
    asm volatile("" : : "r"(some.get()) : "memory");  // or it is left out, being of no use
    if (heap_bytes() < before + 100'000) GTEST_SKIP() << "malloc does not tell what it gave";
  }
  // After each round, memory of that many bytes is kept.
  template <typename Bytes>
  std::optional<uint64_t> growth(Bytes bytes) {
    uint32_t round = 0;
    const auto found = growth_of(100, 16, [&]() -> Status {
      if (const size_t size = bytes(round++); size > 0) kept_.emplace_back(new char[size]);
      return {};
    });
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : std::nullopt;
  }
  CaseVerdict forgets(const std::function<void(SeqId)>& live) {
    return forgets_the_ended(1,
                             [&](SeqId seq) -> Status {
                               live(seq);
                               return {};
                             })
        .verdict;
  }

  std::vector<std::unique_ptr<char[]>> kept_ = reserved();

 private:
  static std::vector<std::unique_ptr<char[]>> reserved() {
    std::vector<std::unique_ptr<char[]>> room;
    room.reserve(100'000);
    return room;
  }
};

TEST_F(HeapGrowth, of_each_round_is_found) {
  EXPECT_GE(growth([](uint32_t) { return 100; }), 100u);
}

TEST_F(HeapGrowth, that_comes_once_or_now_and_then_is_none) {
  EXPECT_EQ(growth([](uint32_t) { return 0; }), std::nullopt);
  for (const uint32_t at : {50u, 150u, 250u, 350u}) {
    EXPECT_EQ(growth([at](uint32_t round) { return round == at ? 500'000 : 0; }), std::nullopt)
        << at;
  }
  // Twice in the windows of a hundred rounds, and not four times as much in the four hundred.
  EXPECT_EQ(growth([](uint32_t round) { return round % 100 == 50 && round < 300 ? 9000 : 0; }),
            std::nullopt);
}

TEST_F(HeapGrowth, of_what_is_kept_for_sequences_is_found) {
  std::set<SeqId> nodes;
  EXPECT_EQ(forgets([&](SeqId seq) { nodes.insert(seq); }), CaseVerdict::leak);
  std::vector<SeqId> doubling;
  EXPECT_EQ(forgets([&](SeqId seq) { doubling.push_back(seq); }), CaseVerdict::leak);
}

TEST_F(HeapGrowth, of_what_ends_with_them_or_comes_once_is_none) {
  std::set<SeqId> living;
  EXPECT_EQ(forgets([&](SeqId seq) {
              living.insert(seq);
              living.erase(seq - 1);
            }),
            CaseVerdict::pass);
  for (const SeqId at : {100u, 1000u, 4000u, 10'000u}) {
    EXPECT_EQ(forgets([&](SeqId seq) {
                if (seq == at) kept_.emplace_back(new char[200'000]);
              }),
              CaseVerdict::pass);
  }
  // A table that is filled and then full.
  std::vector<SeqId> latest;
  EXPECT_EQ(forgets([&](SeqId seq) {
              if (latest.size() < 3000) latest.push_back(seq);
            }),
            CaseVerdict::pass);
}

}  // namespace
}  // namespace tenon
