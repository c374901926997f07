// What ranks exchange on one machine: gathers, sums and hand-overs over shared memory, next to the
// least that they can take: a meeting and a copy. A rank is a thread here, on a core of its own.
//
//   exchange_bench [--ranks=2] [--bytes=8192] [--spins=2000]
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel/shared_collective.h"

namespace tenon::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSamples = 5000;

struct Plan {
  uint32_t ranks = 2;
  uint64_t bytes = 8192;
  uint32_t spins = 2000;
};

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// `function` on every rank, so many times; what one call takes rank 0. The median.
double measure(const Plan& plan, const char* what,
               const std::function<void(Collective& ranks)>& function) {
  auto memory = SharedMemory::create(plan.ranks, std::max<uint64_t>(plan.bytes * 2, 1 << 16));
  if (!memory.ok()) std::exit(1);
  const std::shared_ptr<SharedMemory> shared = *std::move(memory);
  std::vector<double> samples;
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedCollective ranks(
          shared, {.rank = rank,
                   .places = std::vector<RankPlace>(plan.ranks, {"here", 1, plan.ranks, 1}),
                   .spins = plan.spins});
      for (int i = 0; i < kSamples; ++i) {
        const auto start = Clock::now();
        function(ranks);
        if (rank == 0) samples.push_back(microseconds(Clock::now() - start));
      }
    });
  }
  threads.clear();
  std::ranges::sort(samples);
  const double median = samples[samples.size() / 2];
  std::printf("%-34s p50 %8.2f µs   p99 %8.2f µs\n", what, median,
              samples[samples.size() * 99 / 100]);
  return median;
}

void compare(const Plan& plan) {
  std::vector<std::vector<std::byte>> own(plan.ranks, std::vector<std::byte>(plan.bytes));
  std::vector<std::vector<std::byte>> all(plan.ranks,
                                          std::vector<std::byte>(plan.bytes * plan.ranks));
  // The least: a barrier, and everybody copies what the others have.
  std::barrier meeting(plan.ranks);
  const double least = measure(plan, "a barrier and copies", [&](Collective& ranks) {
    meeting.arrive_and_wait();
    for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
      std::memcpy(all[ranks.rank()].data() + rank * plan.bytes, own[rank].data(), plan.bytes);
    }
    meeting.arrive_and_wait();
  });
  const std::vector<uint64_t> sizes(plan.ranks, plan.bytes);
  const double gather = measure(plan, "gather", [&](Collective& ranks) {
    std::memcpy(ranks.outgoing(), own[ranks.rank()].data(), plan.bytes);
    static_cast<void>(ranks.exchange(sizes));
    for (uint32_t rank = 0; rank < plan.ranks; ++rank) {
      std::memcpy(all[ranks.rank()].data() + rank * plan.bytes, ranks.incoming(rank), plan.bytes);
    }
  });
  const double sum = measure(plan, "sum in rank order", [&](Collective& ranks) {
    std::memcpy(ranks.outgoing(), own[ranks.rank()].data(), plan.bytes);
    static_cast<void>(ranks.exchange(sizes));
    auto* to = reinterpret_cast<float*>(all[ranks.rank()].data());
    std::memcpy(to, ranks.incoming(0), plan.bytes);
    for (uint32_t rank = 1; rank < plan.ranks; ++rank) {
      const auto* part = reinterpret_cast<const float*>(ranks.incoming(rank));
      for (uint64_t i = 0; i < plan.bytes / sizeof(float); ++i) to[i] += part[i];
    }
  });
  const double hand_over = measure(plan, "hand-over around the ring", [&](Collective& ranks) {
    const uint32_t count = ranks.size();
    static_cast<void>(ranks.give((ranks.rank() + 1) % count, own[ranks.rank()]));
    static_cast<void>(ranks.take((ranks.rank() + count - 1) % count,
                                 std::span(all[ranks.rank()]).first(plan.bytes)));
  });
  std::printf(
      "%llu bytes, %u ranks, against a barrier and copies: gather %.2f, sum %.2f, hand-over %.2f\n",
      static_cast<unsigned long long>(plan.bytes), plan.ranks, gather / least, sum / least,
      hand_over / least);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  tenon::bench::Plan plan;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&](const char* name) -> const char* {
      const std::string start = std::string("--") + name + "=";
      return word.starts_with(start) ? argv[i] + start.size() : nullptr;
    };
    if (const char* ranks = number("ranks")) plan.ranks = std::max(2, std::atoi(ranks));
    if (const char* bytes = number("bytes")) plan.bytes = std::max(64, std::atoi(bytes) / 64 * 64);
    if (const char* spins = number("spins")) plan.spins = std::max(0, std::atoi(spins));
  }
  tenon::bench::compare(plan);
}
