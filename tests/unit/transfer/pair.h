// A prefill and a decode worker in memory, and K/V for them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/transfer/transfer.h"
#include "tests/support/memory_transport.h"

namespace tenon::transfer_test {

inline constexpr uint64_t kBytes = 64;

inline TierWorld world(bool attends = true, bool recurs = false, std::string text = "world\n") {
  TierWorld made;
  made.text = std::move(text);
  if (attends) made.groups = {{0, kBytes, false}, {1, kBytes, false}};
  if (recurs) made.groups.push_back({2, kBytes, true});
  return made;
}

inline std::vector<ContentDigest> contents(uint32_t blocks) {
  std::vector<ContentDigest> made = {root_digest("world", 0, "")};
  for (uint32_t i = 0; i < blocks; ++i) {
    const std::vector<TokenId> tokens = {static_cast<TokenId>(i)};
    made.push_back(next_digest(made.back(), tokens));
  }
  made.erase(made.begin());
  return made;
}

inline KvBlob blob(uint32_t number) {
  return KvBlob(kBytes, static_cast<std::byte>(number));
}

// A prefill and a decode worker.
struct Pair {
  explicit Pair(TierWorld of = world(), std::chrono::nanoseconds lease = std::chrono::seconds(10),
                uint64_t memory = 1 << 20, uint64_t budget = 1 << 20, TierWorld other = {}) {
    if (other.text.empty()) other = of;
    prefill = open("p", std::move(of), lease, memory, budget);
    decode = open("d", std::move(other), lease, memory, budget);
  }
  std::unique_ptr<KvTransfer> open(const char* address, TierWorld of,
                                   std::chrono::nanoseconds lease, uint64_t memory,
                                   uint64_t budget) {
    TransferOptions options;
    options.address = address;
    options.memory_bytes = memory;
    options.budget_bytes = budget;
    options.lease = lease;
    auto made =
        KvTransfer::open(options, std::move(of), std::make_shared<MemoryTransport>(network));
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }

  // Those of both groups.
  static void put_blocks(KvExport& out, uint32_t first, uint32_t end) {
    const auto all = contents(end);
    for (uint32_t i = first; i < end; ++i) {
      EXPECT_TRUE(out.put({all[i], 0}, blob(i)));
      EXPECT_TRUE(out.put({all[i], 1}, blob(100 + i)));
    }
  }
  // What a fetch brings; null: nothing in ten seconds.
  std::unique_ptr<FoundKv> wait_for(uint64_t id) { return wait_for(id, *decode); }
  static std::unique_ptr<FoundKv> wait_for(uint64_t id, KvTransfer& by) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < limit) {
      if (auto found = by.incoming().take(id)) return found;
      (void)by.incoming().wait_for_any(std::chrono::milliseconds(10));
    }
    return nullptr;
  }
  template <typename Condition>
  static bool comes_true(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  MemoryNetwork network;
  std::unique_ptr<KvTransfer> prefill, decode;
};

}  // namespace tenon::transfer_test
