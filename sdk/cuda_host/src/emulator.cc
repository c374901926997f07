#include <tenon/cuda/emulator.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "sdk/cuda_host/src/block.h"
#include "sdk/cuda_host/src/region.h"
#include "sdk/cuda_host/src/together.h"

namespace tenon::cuda {
namespace {

thread_local Emulator* emulator_now = nullptr;
// Never falls, so that records of an emulator that is gone mean nothing to the next one either, nor
// those of one that another thread of the host uses.
std::atomic<uint32_t> epoch_now = 0;

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxSharedBytes = shared_limit();

}  // namespace

const char* finding_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::out_of_bounds:
      return "out of bounds";
    case FindingKind::misaligned:
      return "misaligned";
    case FindingKind::not_written:
      return "not written";
    case FindingKind::not_landed:
      return "not landed";
    case FindingKind::never_waited:
      return "never waited for";
    case FindingKind::race:
      return "race";
    case FindingKind::too_early:
      return "too early";
    case FindingKind::no_wait:
      return "no wait";
    case FindingKind::constant:
      return "constant";
    case FindingKind::divergent_barrier:
      return "divergent barrier";
    case FindingKind::divergent_warp:
      return "divergent warp";
    case FindingKind::wrong_lane:
      return "wrong lane";
    case FindingKind::shared_memory:
      return "shared memory";
    case FindingKind::stuck:
      return "stuck";
    case FindingKind::bad_launch:
      return "bad launch";
  }
  return "";
}

std::string Finding::message() const {
  const std::string place = line > 0 ? ", " + file + ":" + std::to_string(line) : "";
  return "kernel '" + kernel + "'" + place + ": " + finding_name(kind) + ": " + text;
}

void LateQueue::run_all() {
  while (run_one()) {
  }
}

bool LateQueue::run_one() {
  if (work_.empty()) return false;
  const std::function<void()> work = std::move(work_.front());
  work_.pop_front();
  work();
  return true;
}

Emulator::Emulator(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1), before_(emulator_now) {
  emulator_now = this;
}

Emulator::~Emulator() {
  emulator_now = before_;
}

void Emulator::use() {
  emulator_now = this;
}

Emulator* Emulator::current() {
  return emulator_now;
}

// SplitMix64.
uint64_t Emulator::random() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

std::byte* Emulator::allocate(uint64_t bytes, const std::string& name) {
  if (bytes > memory_limit_ - std::min(memory_limit_, allocated_)) return nullptr;
  auto region = std::make_unique<Region>(name, bytes, false);
  std::byte* base = region->base;
  allocated_ += bytes;
  regions_[base] = std::move(region);
  return base;
}

void Emulator::free(void* at) {
  const auto found = regions_.find(static_cast<std::byte*>(at));
  if (found == regions_.end()) return;
  allocated_ -= found->second->bytes;
  regions_.erase(found);
}

Region* Emulator::find(const void* at, int64_t& offset) {
  Region* region = nullptr;
  if (range(at, 0, &region, offset)) return region;
  for (Region* reached : reached_) {
    offset = static_cast<const std::byte*>(at) - reached->base;
    if (offset >= 0 && static_cast<uint64_t>(offset) < reached->bytes) return reached;
  }
  return nullptr;
}

bool Emulator::reach(const Emulator& other, const void* at) {
  Region* region = nullptr;
  int64_t offset = 0;
  if (!other.range(at, 0, &region, offset)) return false;
  reached_.push_back(region);
  return true;
}

bool Emulator::range(const void* at, uint64_t bytes, Region** region, int64_t& offset) const {
  const auto* address = static_cast<const std::byte*>(at);
  auto found = regions_.upper_bound(address);
  if (found == regions_.begin()) return false;
  --found;
  offset = address - found->first;
  *region = found->second.get();
  return found->second->holds(offset, bytes);
}

bool Emulator::copy_in(void* to, const void* from, uint64_t bytes, Content content) {
  Region* region = nullptr;
  int64_t offset = 0;
  if (!range(to, bytes, &region, offset)) return false;
  std::memcpy(to, from, bytes);
  std::fill_n(region->states.begin() + offset, bytes, ByteState::written);
  region->forget_writers(static_cast<uint64_t>(offset), bytes);
  if (content == Content::constant) region->constant = true;
  return true;
}

bool Emulator::copy_out(void* to, const void* from, uint64_t bytes) const {
  Region* region = nullptr;
  int64_t offset = 0;
  if (!range(from, bytes, &region, offset)) return false;
  std::memcpy(to, from, bytes);
  return true;
}

bool Emulator::copy_inside(void* to, const void* from, uint64_t bytes) {
  return copy_from(to, *this, from, bytes);
}

bool Emulator::copy_from(void* to, const Emulator& other, const void* from, uint64_t bytes) {
  Region *target = nullptr, *source = nullptr;
  int64_t at = 0, of = 0;
  if (!range(to, bytes, &target, at) || !other.range(from, bytes, &source, of)) return false;
  std::memmove(to, from, bytes);
  const std::vector<ByteState> states(source->states.begin() + of,
                                      source->states.begin() + of + static_cast<int64_t>(bytes));
  std::ranges::copy(states, target->states.begin() + at);
  target->forget_writers(static_cast<uint64_t>(at), bytes);
  return true;
}

bool Emulator::written(const void* at, uint64_t bytes) const {
  Region* region = nullptr;
  int64_t offset = 0;
  if (!range(at, bytes, &region, offset)) return false;
  const auto first = region->states.begin() + offset;
  return std::all_of(first, first + static_cast<int64_t>(bytes),
                     [](ByteState state) { return state == ByteState::written; });
}

bool Emulator::forget(void* at) {
  const auto found = regions_.find(static_cast<std::byte*>(at));
  if (found == regions_.end()) return false;
  found->second->forget();
  return true;
}

int Emulator::run(const LaunchConfig& config, const void* kernel,
                  const std::function<void()>& thread) {
  const uint64_t threads = uint64_t{config.block.x} * config.block.y * config.block.z;
  const uint64_t blocks = uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  const bool grid_fits = config.grid.y < 65536 && config.grid.z < 65536 && blocks > 0;
  if (threads == 0 || threads > kMaxThreads || config.shared_bytes > kMaxSharedBytes ||
      !grid_fits) {
    findings_.push_back({FindingKind::bad_launch, config.name, "", 0,
                         "a launch of " + std::to_string(blocks) + " blocks of " +
                             std::to_string(threads) + " threads with " +
                             std::to_string(config.shared_bytes) +
                             " bytes of shared memory; expected 1 to 1024 threads, some blocks, "
                             "at most 65535 along y and z, and at most " +
                             std::to_string(kMaxSharedBytes) + " bytes"});
    return 1;
  }
  if (config.meets && meeting_ && running_) return meeting_({this, config, thread});
  launch_counts_ = {};
  if (recording_) {
    for (const auto& [base, region] : regions_) region->touched.clear();
  }
  ++launch_counts_.launches;
  const int error = running_ ? run_blocks(config, thread) : 0;
  counts_ += launch_counts_;
  if (recording_) {
    records_.push_back(
        {config.name, kernel, config.grid, config.block, config.shared_bytes, launch_counts_});
  }
  return error;
}

int Emulator::run_blocks(const LaunchConfig& config, const std::function<void()>& thread) {
  const uint64_t blocks = uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  blockDim = config.block;
  gridDim = config.grid;
  std::vector<std::unique_ptr<Region>> shared;
  const LaunchState launch{&config,    &thread, this, epoch_now + 1, &epoch_now, &shared,
                           &findings_, nullptr, 0};
  std::vector<uint64_t> order(blocks);
  for (uint64_t i = 0; i < blocks; ++i) order[i] = i;
  for (uint64_t i = blocks; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (const uint64_t i : order) {
    blockIdx = {static_cast<uint32_t>(i % config.grid.x),
                static_cast<uint32_t>(i / config.grid.x % config.grid.y),
                static_cast<uint32_t>(i / config.grid.x / config.grid.y)};
    ++launch_counts_.blocks;
    for (const auto& region : shared) region->forget();
    if (!Block(launch).run()) return 1;
  }
  return 0;
}

bool Emulator::run_together(const std::vector<std::vector<MeetingLaunch>>& devices) {
  return Together(devices, epoch_now).run();
}

namespace host {

Region* find_region(const void* at, int64_t& offset) {
  return emulator_now == nullptr ? nullptr : emulator_now->find(at, offset);
}

int run(const LaunchConfig& config, const void* kernel, std::function<void()> thread) {
  if (emulator_now == nullptr) return 1;
  if (config.stream == nullptr) return emulator_now->run(config, kernel, thread);
  const auto late = [config, kernel, thread = std::move(thread), on = emulator_now] {
    on->run(config, kernel, thread);
  };
  static_cast<LateQueue*>(config.stream)->push(late);
  return 0;
}

}  // namespace host
}  // namespace tenon::cuda
