#include "core/parallel/mpi/mpi_collective.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/clock.h"

namespace tenon {
namespace {

constexpr uint64_t kLine = 64;
constexpr int kExchangeTag = 1, kLengthTag = 2, kMessageTag = 3, kGivenTag = 4;
// Who waits gives its core away between looks, and naps once it has waited for a moment.
constexpr int64_t kAwakeNs = 2'000'000;
constexpr std::chrono::microseconds kNap{200};
constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;  // MPI counts in int

}  // namespace

MpiCollective::MpiCollective(const MpiLibrary& mpi, uint32_t rank, std::vector<RankPlace> places,
                             uint64_t slot_bytes)
    : mpi_(mpi),
      rank_(rank),
      places_(std::move(places)),
      slot_bytes_(slot_bytes),
      outgoing_(slot_bytes + kLine),
      incoming_(places_.size() * slot_bytes + kLine) {}

std::byte* MpiCollective::slot(const std::vector<std::byte>& memory, uint32_t index) const {
  const auto first = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t aligned = (first + kLine - 1) / kLine * kLine;
  return reinterpret_cast<std::byte*>(aligned) + index * slot_bytes_;
}

Status MpiCollective::start_send(const void* from, uint64_t bytes, uint32_t rank, int tag,
                                 AllPending& pending) {
  const std::lock_guard lock(calls_);
  Pending& made = pending.emplace_back(Pending{nullptr, rank});
  if (mpi_.isend(from, static_cast<int>(bytes), mpi_.byte, static_cast<int>(rank), tag, mpi_.world,
                 &made.request) == 0) {
    return {};
  }
  pending.pop_back();
  return failed("MPI cannot send to " + name_of_rank(rank, places_[rank]));
}

Status MpiCollective::start_receive(void* to, uint64_t bytes, uint32_t rank, int tag,
                                    AllPending& pending) {
  const std::lock_guard lock(calls_);
  Pending& made = pending.emplace_back(Pending{nullptr, rank});
  if (mpi_.irecv(to, static_cast<int>(bytes), mpi_.byte, static_cast<int>(rank), tag, mpi_.world,
                 &made.request) == 0) {
    return {};
  }
  pending.pop_back();
  return failed("MPI cannot receive from " + name_of_rank(rank, places_[rank]));
}

Status MpiCollective::finish(int64_t patience_ns, AllPending& pending) {
  const int64_t began = WallClock().now_ns();
  for (;;) {
    {
      const std::lock_guard lock(calls_);
      std::erase_if(pending, [this](Pending& one) {
        int done = 0;
        return mpi_.test(&one.request, &done, nullptr) == 0 && done != 0;
      });
    }
    if (pending.empty()) return {};
    const int64_t waited = WallClock().now_ns() - began;
    if (waited > patience_ns) {
      const uint32_t missing = pending.front().rank;
      fail(name_of_rank(missing, places_[missing]) + " has not answered for " +
           std::to_string(patience_ns / 1'000'000'000) +
           " s: it is stopped, or its machine or link is gone");
      return fault();
    }
    if (waited < kAwakeNs) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

Status MpiCollective::exchange(std::span<const uint64_t> bytes) {
  TENON_RETURN_IF_ERROR(fault());
  for (uint32_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    TENON_RETURN_IF_ERROR(
        start_receive(slot(incoming_, other), bytes[other], other, kExchangeTag, pending_));
    TENON_RETURN_IF_ERROR(start_send(outgoing(), bytes[rank_], other, kExchangeTag, pending_));
  }
  std::memcpy(slot(incoming_, rank_), outgoing(), bytes[rank_]);
  return finish(kPatienceNs, pending_);
}

Status MpiCollective::all_to_all(std::span<const uint64_t> starts) {
  TENON_RETURN_IF_ERROR(fault());
  const auto part = [&](uint32_t from, uint32_t to) {
    const uint64_t* row = starts.data() + uint64_t{from} * (size() + 1);
    return std::pair(row[to], row[to + 1] - row[to]);
  };
  for (uint32_t other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    const auto [from_at, from_bytes] = part(other, rank_);
    TENON_RETURN_IF_ERROR(
        start_receive(slot(incoming_, other) + from_at, from_bytes, other, kExchangeTag, pending_));
    const auto [to_at, to_bytes] = part(rank_, other);
    TENON_RETURN_IF_ERROR(start_send(outgoing() + to_at, to_bytes, other, kExchangeTag, pending_));
  }
  const auto [own_at, own_bytes] = part(rank_, rank_);
  std::memcpy(slot(incoming_, rank_) + own_at, outgoing() + own_at, own_bytes);
  return finish(kPatienceNs, pending_);
}

Status MpiCollective::give(uint32_t to, std::span<const std::byte> bytes) {
  TENON_RETURN_IF_ERROR(fault());
  AllPending pending;
  for (size_t first = 0; first < bytes.size(); first += kMostAtOnce) {
    const uint64_t count = std::min<uint64_t>(bytes.size() - first, kMostAtOnce);
    TENON_RETURN_IF_ERROR(start_send(bytes.data() + first, count, to, kGivenTag, pending));
  }
  return finish(kStagePatienceNs, pending);
}

Status MpiCollective::take(uint32_t from, std::span<std::byte> bytes) {
  TENON_RETURN_IF_ERROR(fault());
  AllPending pending;
  for (size_t first = 0; first < bytes.size(); first += kMostAtOnce) {
    const uint64_t count = std::min<uint64_t>(bytes.size() - first, kMostAtOnce);
    TENON_RETURN_IF_ERROR(start_receive(bytes.data() + first, count, from, kGivenTag, pending));
  }
  return finish(kStagePatienceNs, pending);
}

Status MpiCollective::send(std::span<const std::byte> message) {
  TENON_RETURN_IF_ERROR(fault());
  if (message.size() > kMostAtOnce) return internal("a message to ranks is over a gigabyte");
  const uint64_t length = message.size();
  for (uint32_t other = 1; other < size(); ++other) {
    TENON_RETURN_IF_ERROR(start_send(&length, sizeof(length), other, kLengthTag, pending_));
    TENON_RETURN_IF_ERROR(start_send(message.data(), length, other, kMessageTag, pending_));
  }
  return finish(kPatienceNs, pending_);
}

Result<std::vector<std::byte>> MpiCollective::receive() {
  TENON_RETURN_IF_ERROR(fault());
  uint64_t length = 0;
  TENON_RETURN_IF_ERROR(start_receive(&length, sizeof(length), 0, kLengthTag, pending_));
  TENON_RETURN_IF_ERROR(finish(std::numeric_limits<int64_t>::max(), pending_));
  std::vector<std::byte> message(length);
  TENON_RETURN_IF_ERROR(start_receive(message.data(), length, 0, kMessageTag, pending_));
  TENON_RETURN_IF_ERROR(finish(kPatienceNs, pending_));
  return message;
}

void MpiCollective::fail(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (fault_.empty()) fault_ = cause;
}

Status MpiCollective::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_.empty() ? Status() : failed(fault_);
}

}  // namespace tenon
