// What a thread touches: bounds, alignment, whether anything stands there, and races.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "sdk/cuda_host/src/block.h"

namespace tenon::cuda {
namespace {

std::string in_quotes(const std::string& name) {
  return "'" + name + "'";
}

bool all_written(const Region& region, uint64_t first, uint64_t count) {
  static_assert(sizeof(ByteState) == 1 && ByteState::written == ByteState{1});
  constexpr uint64_t kEach = 0x0101010101010101;
  const ByteState* states = region.states.data() + first;
  uint64_t differs = 0;
  for (; count >= 8; count -= 8, states += 8) {
    uint64_t word = 0;
    std::memcpy(&word, states, 8);
    differs |= word ^ kEach;
  }
  for (; count > 0; --count, ++states) differs |= *states != ByteState::written ? 1 : 0;
  return differs == 0;
}

}  // namespace

// Whether a record is of an epoch that is over, and then whether it is in order with what this
// block does now: of this block it is, of another one only where its launch is over.
bool Block::earlier(uint32_t epoch, bool shared, bool& ordered) const {
  if (launch_.together != nullptr && epoch >= launch_.first_epoch) {
    const uint32_t owner = launch_.together->owner(epoch);
    if (owner != launch_.member) {
      ordered = knows(owner, epoch);
      return true;
    }
  }
  if (epoch >= epoch_) return false;
  ordered = shared || epoch >= first_epoch_ || epoch < launch_.first_epoch;
  return true;
}

bool Block::knows(uint32_t owner, uint32_t epoch) const {
  return epoch < seen_.of(owner) || epoch < threads_[running_].acquired.of(owner);
}

// Both sides look at the flag alone, which no rule for races holds for.
void Block::store_release(Region* region, int64_t offset, uint32_t value, Line line) {
  check_range(region, offset, sizeof(value), line, "writes");
  if (!threads_[running_].in_order) {
    fail(FindingKind::too_early, line, "releases a flag before wait_for_earlier; wait first");
  }
  std::memcpy(region->base + offset, &value, sizeof(value));
  std::fill_n(region->states.begin() + offset, sizeof(value), ByteState::written);
  counts().written_bytes += sizeof(value);
  ++flags_stored();
  if (launch_.together == nullptr) return;
  SeenBlocks shown = seen_;
  shown.join(threads_[running_].acquired);
  shown.add(launch_.member, epoch_);
  launch_.together->release(region, offset, std::move(shown));
}

void Block::wait_acquire(Region* region, int64_t offset, uint32_t value, Line line) {
  check_range(region, offset, sizeof(value), line, "reads");
  if (!threads_[running_].in_order) {
    fail(FindingKind::too_early, line, "looks at a flag before wait_for_earlier; wait first");
  }
  const uint32_t self = running_;
  for (;;) {
    uint32_t now = 0;
    std::memcpy(&now, region->base + offset, sizeof(now));
    if (region->states[static_cast<uint64_t>(offset)] != ByteState::written) {
      fail(FindingKind::not_written, line,
           "waits for a flag in " + in_quotes(region->name) +
               " that nobody wrote; let the host write it first");
    }
    if (now == value) break;
    threads_[self].looked = flags_stored();
    threads_[self].waits = "wait_acquire";
    threads_[self].waits_at = line;
    spinning_.push_back(self);
    threads_[self].caller = std::move(threads_[self].caller).resume();
    threads_[self].waits = nullptr;
  }
  counts().read_bytes += sizeof(value);
  if (launch_.together == nullptr) return;
  threads_[self].acquired.join(launch_.together->released(region, offset));
}

bool Block::in_order(const LastWrite& before) const {
  if (before.thread == running_) return true;
  if (before.thread / kWarp != running_ / kWarp) return false;
  return before.stamp < warps_[running_ / kWarp].seen[lane()][before.thread % kWarp];
}

bool Block::in_order(const LastReads& before) const {
  if (before.warp != running_ / kWarp) return false;
  const uint32_t* seen = warps_[before.warp].seen[lane()];
  for (uint32_t lanes = before.lanes & ~(uint32_t{1} << lane()); lanes != 0; lanes &= lanes - 1) {
    if (before.stamp >= seen[std::countr_zero(lanes)]) return false;
  }
  return true;
}

void Block::check_range(Region* region, int64_t offset, uint32_t bytes, Line line,
                        const char* verb) {
  if (region == nullptr) {
    fail(FindingKind::out_of_bounds, line,
         std::string(verb) + " what is no device memory; pass an address that was allocated");
  }
  if (!region->holds(offset, bytes)) {
    fail(FindingKind::out_of_bounds, line,
         std::string(verb) + " bytes " + std::to_string(offset) + " to " +
             std::to_string(offset + bytes - 1) + " of " + in_quotes(region->name) +
             ", which has " + std::to_string(region->bytes) +
             "; keep indices below the array's length");
  }
  if ((bytes & (bytes - 1)) == 0 && offset % bytes != 0) {
    fail(FindingKind::misaligned, line,
         std::string(verb) + " " + std::to_string(bytes) + " bytes at byte " +
             std::to_string(offset) + " of " + in_quotes(region->name) +
             "; the address must be a multiple of the size");
  }
}

void Block::fail_race(const Region& region, uint64_t byte, Line line, const char* verb,
                      const Cell& cell, bool with_write) {
  const uint32_t epoch = with_write ? cell.written.epoch : cell.read.epoch;
  const uint32_t other = with_write ? cell.written.line : cell.read.line;
  const uint32_t warp = with_write ? cell.written.thread / kWarp : cell.read.warp;
  const bool meets = launch_.together != nullptr && epoch >= launch_.first_epoch &&
                     launch_.together->owner(epoch) != launch_.member;
  const char* way = meets ? "a block that runs at the same time; release a flag after it and "
                            "acquire it before this"
                    : epoch < first_epoch_ ? "another block of the launch; blocks have no order"
                    : warp == running_ / kWarp
                        ? "another lane of the warp; put a __syncwarp between"
                        : "another thread; put a __syncthreads between";
  fail(FindingKind::race, line,
       std::string(verb) + " byte " + std::to_string(byte) + " of " + in_quotes(region.name) +
           ", which line " + std::to_string(other) + (with_write ? " wrote" : " read") + " in " +
           way);
}

void Block::note_read(LastReads& read, Line line) const {
  const Thread& own = threads_[running_];
  const uint32_t bit = uint32_t{1} << lane();
  const uint32_t warp = running_ / kWarp;
  if (read.epoch != epoch_ || in_order(read)) {
    read = {epoch_, own.stamp, line.number, bit, warp};
    return;
  }
  read.warp = read.warp == warp ? warp : kManyWarps;
  read.lanes |= bit;
  read.stamp = std::max(read.stamp, own.stamp);
  read.line = line.number;
}

void Block::read(Region* region, int64_t offset, uint32_t bytes, Line line) {
  check_range(region, offset, bytes, line, "reads");
  read_allowed(region, offset, bytes, line);
  (region->shared ? counts().shared_read_bytes : counts().read_bytes) += bytes;
  launch_.emulator->touch(*region, offset, bytes, Emulator::Touch::read);
}

// Kernels before this one may still run. What none of them ever wrote is as it will be.
void Block::check_early_read(Region* region, int64_t offset, uint32_t bytes, Line line) {
  if (region->shared || region->constant || threads_[running_].in_order) return;
  const auto first = static_cast<uint64_t>(offset);
  const uint64_t most = Region::most_together(first, bytes);
  for (uint64_t byte = first, together = 0; byte < first + bytes; byte += together) {
    const LastWrite& written = region->cell(byte, most, together).written;
    if (written.epoch == 0) continue;
    fail(FindingKind::too_early, line,
         "reads byte " + std::to_string(byte) + " of " + in_quotes(region->name) + ", which line " +
             std::to_string(written.line) + " wrote, before wait_for_earlier; wait first");
  }
}

void Block::check_landed(const Region& region, uint64_t byte, Line line) {
  if (region.states[byte] == ByteState::written) return;
  if (region.states[byte] == ByteState::nothing) {
    fail(FindingKind::not_written, line,
         "reads byte " + std::to_string(byte) + " of " + in_quotes(region.name) +
             ", which nobody wrote; write it first");
  }
  fail(FindingKind::not_landed, line,
       "reads byte " + std::to_string(byte) + " of " + in_quotes(region.name) +
           ", where a cp.async has not landed; wait for its group, and then for the block");
}

// The same without a rule for alignment.
void Block::read_allowed(Region* region, int64_t offset, uint32_t bytes, Line line) {
  check_early_read(region, offset, bytes, line);
  const auto first = static_cast<uint64_t>(offset);
  const bool written = all_written(*region, first, bytes);
  if (written && region->constant) return;
  const uint64_t most = Region::most_together(first, bytes);
  for (uint64_t byte = first, together = 0; byte < first + bytes; byte += together) {
    together = most;
    Cell* const cell = region->constant ? nullptr : &region->cell(byte, most, together);
    for (uint64_t i = byte; !written && i < byte + together; ++i) check_landed(*region, i, line);
    if (cell == nullptr) continue;
    bool ordered = true;
    if (!earlier(cell->written.epoch, region->shared, ordered)) ordered = in_order(cell->written);
    if (!ordered) fail_race(*region, byte, line, "reads", *cell, true);
    note_read(cell->read, line);
  }
}

void Block::write(Region* region, int64_t offset, uint32_t bytes, Line line, Write how) {
  check_range(region, offset, bytes, line, "writes");
  if (region->constant) {
    fail(FindingKind::constant, line,
         "writes to " + in_quotes(region->name) +
             ", which is constant; write to an array that is not");
  }
  const auto first = static_cast<uint64_t>(offset);
  const Thread& own = threads_[running_];
  if (!region->shared && !own.in_order) {
    fail(FindingKind::too_early, line,
         "writes to " + in_quotes(region->name) +
             " before wait_for_earlier, while earlier kernels may use it; wait first");
  }
  const uint64_t most = Region::most_together(first, bytes);
  for (uint64_t byte = first, together = 0; byte < first + bytes; byte += together) {
    Cell& cell = region->cell(byte, most, together);
    for (uint64_t i = byte; i < byte + together; ++i) {
      if (region->states[i] != ByteState::landing) continue;
      fail(FindingKind::not_landed, line,
           "writes byte " + std::to_string(i) + " of " + in_quotes(region->name) +
               ", where a cp.async has not landed; wait for its group first");
    }
    bool ordered = true;
    if (!earlier(cell.written.epoch, region->shared, ordered)) ordered = in_order(cell.written);
    if (!ordered && !(cell.written.atomic && how == Write::atomic)) {
      fail_race(*region, byte, line, "writes", cell, true);
    }
    ordered = true;
    if (!earlier(cell.read.epoch, region->shared, ordered)) ordered = in_order(cell.read);
    if (!ordered) fail_race(*region, byte, line, "writes", cell, false);
    cell.written = {epoch_, own.stamp, line.number, static_cast<uint16_t>(running_),
                    how == Write::atomic};
  }
  std::fill_n(region->states.begin() + offset, bytes,
              how == Write::landing ? ByteState::landing : ByteState::written);
  if (how == Write::landing) return;  // counts when it has landed
  (region->shared ? counts().shared_written_bytes : counts().written_bytes) += bytes;
  launch_.emulator->touch(*region, offset, bytes, Emulator::Touch::write);
}

Region* Block::take_shared(uint32_t& used, uint64_t bytes, Line line) {
  const uint64_t end = used + bytes;
  if (end > launch_.config->shared_bytes) {
    fail(FindingKind::shared_memory, line,
         "takes " + std::to_string(end) + " bytes of shared memory, launched with " +
             std::to_string(launch_.config->shared_bytes) + "; launch with more");
  }
  // Arrays are found again by where they begin: every thread of the block takes the same ones.
  const uint32_t at = std::exchange(used, static_cast<uint32_t>((end + 15) / 16 * 16));
  auto& regions = *launch_.shared;
  const auto found = std::ranges::find_if(regions, [&](const auto& region) {
    return region->taken_at == at && region->taken_in == line.number;
  });
  if (found != regions.end()) return found->get();
  auto region = std::make_unique<Region>(
      "shared memory at " + std::to_string(at) + ", taken in line " + std::to_string(line.number),
      bytes, true);
  region->taken_at = at;
  region->taken_in = line.number;
  regions.push_back(std::move(region));
  return regions.back().get();
}

void Block::copy_async(Region* to, int64_t to_offset, Region* from, int64_t from_offset,
                       uint32_t valid, Line line) {
  if (valid > 16) fail(FindingKind::bad_launch, line, "copies more than 16 bytes; pass at most 16");
  if (valid > 0) {
    check_range(from, from_offset, valid, line, "reads");
    if (from_offset % 16 != 0) {
      fail(FindingKind::misaligned, line,
           "a cp.async reads at byte " + std::to_string(from_offset) + " of " +
               in_quotes(from->name) + "; the address must be a multiple of 16");
    }
    read_allowed(from, from_offset, valid, line);
    counts().read_bytes += valid;
    launch_.emulator->touch(*from, from_offset, valid, Emulator::Touch::read);
  }
  ++counts().async_copies;
  write(to, to_offset, 16, line, Write::landing);
  threads_[running_].open.push_back({to, to_offset, from, from_offset, valid, line});
}

void Block::commit_async() {
  Thread& own = threads_[running_];
  own.groups.push_back(std::move(own.open));
  own.open.clear();
}

void Block::wait_async(uint32_t groups_left) {
  Thread& own = threads_[running_];
  if (own.groups.size() <= groups_left) return;
  const auto left = own.groups.end() - groups_left;
  for (auto group = own.groups.begin(); group != left; ++group) {
    for (const Copy& copy : *group) land(copy);
  }
  own.groups.erase(own.groups.begin(), left);
}

void Block::land(const Copy& copy) {
  std::byte* to = copy.to->base + copy.to_offset;
  std::memset(to, 0, 16);
  if (copy.valid > 0) std::memcpy(to, copy.from->base + copy.from_offset, copy.valid);
  std::fill_n(copy.to->states.begin() + copy.to_offset, 16, ByteState::nothing);
  write(copy.to, copy.to_offset, 16, copy.line, Write::plain);
}

}  // namespace tenon::cuda
