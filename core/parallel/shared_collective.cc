#include "core/parallel/shared_collective.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/threads/futex.h"
#include "core/base/threads/pause.h"

namespace tenon {
namespace {

// A sleeper looks around so often for a fault, which wakes nobody.
constexpr timespec kLookAround{.tv_sec = 0, .tv_nsec = 50'000'000};

// A rank that was found late is likely to come soon; one that yields wakes up at once.
constexpr int64_t kYieldNs = 2'000'000;
// A yield that takes longer has let somebody else run.
constexpr int64_t kLongYieldNs = 200'000;

// Counters wrap.
bool reached(uint32_t value, uint32_t wanted) {
  return static_cast<int32_t>(value - wanted) >= 0;
}

}  // namespace

SharedCollective::SharedCollective(std::shared_ptr<SharedMemory> memory, Options options)
    : memory_(std::move(memory)), options_(std::move(options)) {
  of(rank()).state = RankState::here;
}

SharedCollective::~SharedCollective() = default;

void SharedCollective::raise(SharedCount& count) const {
  count.value.fetch_add(1);
  if (count.sleepers.load() > 0) wake(count.value);
}

Status SharedCollective::wait_for(SharedCount& count, uint32_t wanted) const {
  const auto is_reached = [&] {
    return reached(count.value.load(std::memory_order_acquire), wanted);
  };
  for (uint32_t spins = 0; spins < options_.spins; ++spins) {
    if (is_reached()) return {};
    pause_core();
  }
  if (options_.spins > 0 && yield_until(is_reached, kYieldNs, kLongYieldNs)) return {};
  for (;;) {
    const uint32_t seen = count.value.load();
    if (reached(seen, wanted)) return {};
    if (Status status = fault(); !status.ok()) return status;
    count.sleepers.fetch_add(1);
    if (!reached(count.value.load(), wanted)) sleep_while(count.value, seen, &kLookAround);
    count.sleepers.fetch_sub(1);
  }
}

Status SharedCollective::exchange(std::span<const uint64_t>) {
  ++exchanges_;
  raise(of(rank()).exchanges);
  for (uint32_t other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    TENON_RETURN_IF_ERROR(wait_for(of(other).exchanges, exchanges_));
  }
  return fault();
}

Result<std::unique_ptr<SharedRoom>> SharedCollective::room(uint64_t bytes) const {
  return memory_->room(pipelines(), bytes);
}

Status SharedCollective::give(uint32_t, std::span<const std::byte> bytes) {
  for (size_t first = 0; first < bytes.size(); first += memory_->slot_bytes()) {
    // The piece before the last one, whose slot this is, was taken.
    TENON_RETURN_IF_ERROR(wait_for(of(rank()).taken, given_ - 1));
    const size_t count = std::min<size_t>(bytes.size() - first, memory_->slot_bytes());
    std::memcpy(memory_->given_slot(rank(), given_ % 2), bytes.data() + first, count);
    ++given_;
    raise(of(rank()).given);
  }
  return fault();
}

Status SharedCollective::take(uint32_t from, std::span<std::byte> bytes) {
  for (size_t first = 0; first < bytes.size(); first += memory_->slot_bytes()) {
    TENON_RETURN_IF_ERROR(wait_for(of(from).given, taken_ + 1));
    const size_t count = std::min<size_t>(bytes.size() - first, memory_->slot_bytes());
    std::memcpy(bytes.data() + first, memory_->given_slot(from, taken_ % 2), count);
    ++taken_;
    raise(of(from).taken);
  }
  return fault();
}

Status SharedCollective::send(std::span<const std::byte> message) {
  for (size_t first = 0;; first += SharedHeader::kPartBytes) {
    // The part before the last one, whose buffer this is, was read by all.
    for (uint32_t other = 1; other < size(); ++other) {
      TENON_RETURN_IF_ERROR(wait_for(of(other).messages, parts_ - 1));
    }
    SharedHeader::Part& part = memory_->header().parts[parts_ % 2];
    const size_t bytes = std::min<size_t>(message.size() - first, SharedHeader::kPartBytes);
    std::ranges::copy(message.subspan(first, bytes), part.data);
    part.bytes = static_cast<uint32_t>(bytes);
    part.last = first + bytes == message.size() ? 1 : 0;
    ++parts_;
    raise(of(0).messages);
    if (part.last != 0) return fault();
  }
}

Result<std::vector<std::byte>> SharedCollective::receive() {
  std::vector<std::byte> message;
  for (;;) {
    TENON_RETURN_IF_ERROR(wait_for(of(0).messages, parts_ + 1));
    const SharedHeader::Part& part = memory_->header().parts[parts_ % 2];
    const bool last = part.last != 0;
    message.insert(message.end(), part.data, part.data + part.bytes);
    ++parts_;
    raise(of(rank()).messages);
    if (last) return message;
  }
}

Status SharedCollective::fault() const {
  const SharedHeader& header = memory_->header();
  if (header.fault.load(std::memory_order_acquire) == 0) return {};
  while (options_.parks) pause();
  return failed(std::string(header.fault_text));
}

void SharedCollective::fail(const std::string& cause) {
  SharedHeader& header = memory_->header();
  uint32_t free = 0;
  if (!header.fault_taken.compare_exchange_strong(free, 1)) return;
  const size_t bytes = std::min<size_t>(cause.size(), SharedHeader::kMostFaultBytes - 1);
  std::memcpy(header.fault_text, cause.data(), bytes);
  header.fault_text[bytes] = '\0';
  header.fault.store(1, std::memory_order_release);
}

void SharedCollective::announce_end() {
  RankState here = RankState::here;
  of(rank()).state.compare_exchange_strong(here, RankState::leaving);
}

bool SharedCollective::leader_ends() const {
  const RankState state = of(0).state.load();
  return state == RankState::leaving || state == RankState::left;
}

void SharedCollective::leave() {
  of(rank()).state = RankState::left;
}

}  // namespace tenon
