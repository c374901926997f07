#include "sdk/cuda_host/src/block.h"

#include <algorithm>
#include <bit>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <string_view>
#include <utility>

namespace tenon::cuda {
namespace {

thread_local Block* block_now = nullptr;

constexpr std::size_t kStackBytes = 128 * 1024;

// Stacks are used again: a launch has thousands of threads, and a system call for each is slow.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (auto& stack : free_) source_.deallocate(stack);
  }
  boost::context::stack_context allocate() {
    if (free_.empty()) return source_.allocate();
    const auto stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) { free_.push_back(stack); }
  static StackPool& get() {
    static thread_local StackPool pool;
    return pool;
  }

 private:
  boost::context::protected_fixedsize_stack source_{kStackBytes};
  std::vector<boost::context::stack_context> free_;
};
struct PooledStack {
  boost::context::stack_context allocate() { return StackPool::get().allocate(); }
  void deallocate(boost::context::stack_context& stack) { StackPool::get().deallocate(stack); }
};

std::string place(const Extent& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

}  // namespace

Block* Block::current() {
  return block_now;
}

Block::Block(const LaunchState& launch)
    : launch_(launch),
      first_epoch_(++*launch.epoch),
      epoch_(first_epoch_),
      count_(launch.config->block.x * launch.config->block.y * launch.config->block.z),
      threads_(count_),
      warps_((count_ + kWarp - 1) / kWarp),
      left_(count_) {
  const Extent& size = launch.config->block;
  for (uint32_t i = 0; i < count_; ++i) {
    threads_[i].in_order = !launch.config->overlaps;
    threads_[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    start(i);
    ready_.push_back(i);
  }
  if (count_ % kWarp != 0) warps_.back().away = ~uint32_t{0} << count_ % kWarp;
  if (launch_.together == nullptr) return;
  launch_.together->own(epoch_, launch_.member);
  seen_ = launch_.together->seen_before(launch_.member);
}

Block::~Block() {
  // Threads that did not end leave their kernels here.
  block_now = this;
  threads_.clear();
  block_now = nullptr;
}

void Block::start(uint32_t thread) {
  threads_[thread].fiber = boost::context::fiber(std::allocator_arg, PooledStack(),
                                                 [this, thread](boost::context::fiber&& caller) {
                                                   threads_[thread].caller = std::move(caller);
                                                   try {
                                                     (*launch_.thread)();
                                                     finish();
                                                   } catch (const Stopped&) {
                                                   }
                                                   threads_[thread].done = true;
                                                   return std::move(threads_[thread].caller);
                                                 });
}

void Block::resume(uint32_t thread) {
  running_ = thread;
  threadIdx = threads_[thread].index;
  threads_[thread].fiber = std::move(threads_[thread].fiber).resume();
}

bool Block::run() {
  while (!is_done()) {
    if (!advance()) report_stuck();
  }
  return !stopped_;
}

bool Block::advance() {
  block_now = this;
  wake_spinning();
  if (ready_.empty()) return false;
  const uint64_t chosen = launch_.emulator->random() % ready_.size();
  const uint32_t thread = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  resume(thread);
  if (left_ == 0 && !stopped_) report_no_wait();
  return true;
}

// Flags are looked at again once any was stored.
void Block::wake_spinning() {
  const uint64_t stored = flags_stored();
  std::erase_if(spinning_, [&](uint32_t thread) {
    if (threads_[thread].looked == stored) return false;
    ready_.push_back(thread);
    return true;
  });
}

// A thread returned from the kernel.
void Block::finish() {
  Thread& own = threads_[running_];
  own.groups.push_back(std::move(own.open));
  for (const auto& group : own.groups) {
    if (group.empty()) continue;
    fail(FindingKind::never_waited, group[0].line,
         "a cp.async was not waited for when its thread returned; end with copy_async_wait<0>()");
  }
  own.done = true;
  warps_[running_ / kWarp].away |= uint32_t{1} << lane();
  --left_;
  if (at_barrier_ > 0) {
    fail(FindingKind::divergent_barrier, barrier_line_,
         "thread " + std::to_string(running_) +
             " returned while others wait in __syncthreads; let all threads of a block come to it");
  }
  for (const Meeting& meeting : warps_[running_ / kWarp].meetings) {
    if (meeting.what == nullptr || (meeting.mask >> lane() & 1) == 0) continue;
    fail(FindingKind::divergent_warp, meeting.line,
         "lane " + std::to_string(lane()) + " returned, and others wait for it in " + meeting.what +
             "; let all lanes of the mask come to it");
  }
}

void Block::suspend(const char* what, Line line) {
  const uint32_t self = running_;
  threads_[self].waits = what;
  threads_[self].waits_at = line;
  warps_[self / kWarp].away |= uint32_t{1} << self % kWarp;
  threads_[self].caller = std::move(threads_[self].caller).resume();
}

void Block::wake(uint32_t thread) {
  threads_[thread].waits = nullptr;
  warps_[thread / kWarp].away &= ~(uint32_t{1} << thread % kWarp);
  ready_.push_back(thread);
}

void Block::wait_for_earlier(Line line) {
  threads_[running_].in_order = true;
  earlier_line_ = line;
}

void Block::barrier(Line line) {
  for (uint32_t i = 0; i < count_ && left_ < count_; ++i) {
    if (!threads_[i].done) continue;
    fail(FindingKind::divergent_barrier, line,
         "thread " + std::to_string(i) +
             " has returned and does not come to this __syncthreads; let all threads of a block "
             "come to it");
  }
  if (at_barrier_ > 0 && barrier_line_.number != line.number) {
    fail(FindingKind::divergent_barrier, line,
         "some threads of the block are in this __syncthreads and others in that of line " +
             std::to_string(barrier_line_.number) + "; let all come to the same one");
  }
  barrier_line_ = line;
  if (++at_barrier_ < count_) return suspend("__syncthreads", line);
  at_barrier_ = 0;
  epoch_ = ++*launch_.epoch;
  if (launch_.together != nullptr) launch_.together->own(epoch_, launch_.member);
  for (Thread& thread : threads_) {
    if (!thread.acquired.empty()) seen_.join(std::exchange(thread.acquired, {}));
  }
  ++counts().barriers;
  for (uint32_t i = 0; i < count_; ++i) {
    if (i != running_) wake(i);
  }
}

void Block::fail_apart(const char* what, uint32_t mask, uint32_t other, Line line) {
  const Thread& thread = threads_[running_ / kWarp * kWarp + other];
  const std::string who = "lane " + std::to_string(other);
  if (thread.done) {
    fail(FindingKind::divergent_warp, line,
         who + ", which the mask of this " + what +
             " names, has returned; name the lanes that come, and let them come");
  }
  const std::string where =
      std::string(thread.waits) + " of line " + std::to_string(thread.waits_at.number);
  const bool barrier = at_barrier_ > 0 && std::string_view(thread.waits) == "__syncthreads";
  fail(barrier ? FindingKind::divergent_barrier : FindingKind::divergent_warp,
       barrier ? barrier_line_ : line,
       who + " waits in " + where + " and lane " + std::to_string(lane()) + " comes to the " +
           what + " of line " + std::to_string(line.number) + ", whose mask " +
           std::to_string(mask) +
           " names both; let all lanes of a mask come to the same operation");
}

// Lanes that the mask names and that wait for something else, or are gone, will not come.
void Block::check_lanes(const char* what, uint32_t mask, Line line, const Meeting* joined) {
  const uint32_t joined_lanes = joined == nullptr ? 0 : joined->arrived;
  const uint32_t missing = mask & warps_[running_ / kWarp].away & ~joined_lanes;
  if (missing == 0) return;
  const auto other = static_cast<uint32_t>(std::countr_zero(missing));
  if (running_ / kWarp * kWarp + other >= count_) {
    fail(FindingKind::divergent_warp, line,
         std::string("the mask of this ") + what + " names lane " + std::to_string(other) +
             ", which the block does not have; launch whole warps");
  }
  fail_apart(what, mask, other, line);
}

void Block::meet(const char* what, uint32_t mask, void* slot, const Complete& complete, Line line) {
  if ((mask >> lane() & 1) == 0) {
    fail(FindingKind::wrong_lane, line,
         "lane " + std::to_string(lane()) + " comes to this " + what +
             " with a mask that does not name it; every lane names itself");
  }
  Warp& warp = warps_[running_ / kWarp];
  uint32_t chosen = static_cast<uint32_t>(warp.meetings.size());
  for (uint32_t i = 0; i < warp.meetings.size(); ++i) {
    const Meeting& meeting = warp.meetings[i];
    if (meeting.what == nullptr) continue;
    if (meeting.what == what && meeting.mask == mask && meeting.line.number == line.number) {
      chosen = i;
      break;
    }
  }
  check_lanes(what, mask, line, chosen < warp.meetings.size() ? &warp.meetings[chosen] : nullptr);
  for (uint32_t i = 0; i < warp.meetings.size() && chosen == warp.meetings.size(); ++i) {
    if (warp.meetings[i].what == nullptr) chosen = i;
  }
  if (chosen == warp.meetings.size()) warp.meetings.emplace_back();
  Meeting& meeting = warp.meetings[chosen];
  if (meeting.what == nullptr) meeting = {what, line, mask, 0, {}};
  meeting.arrived |= uint32_t{1} << lane();
  meeting.slots[lane()] = slot;
  if (meeting.arrived != mask) return suspend(what, line);
  complete(meeting.slots);
  meeting.what = nullptr;
  for (uint32_t other = 0; other < kWarp; ++other) {
    if ((mask >> other & 1) != 0 && other != lane()) wake(running_ / kWarp * kWarp + other);
  }
}

// Joins what the lanes of a barrier's mask know of each other.
void Block::join_clocks(uint32_t mask) {
  Warp& warp = warps_[running_ / kWarp];
  const uint32_t number = ++warp.barriers;
  uint32_t most[kWarp] = {};
  for (uint32_t i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1) == 0) continue;
    for (uint32_t of = 0; of < kWarp; ++of) most[of] = std::max(most[of], warp.seen[i][of]);
  }
  for (uint32_t i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1) == 0) continue;
    threads_[running_ / kWarp * kWarp + i].stamp = number;
    most[i] = number;
  }
  for (uint32_t i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1) != 0) std::copy(most, most + kWarp, warp.seen[i]);
  }
}

void Block::report_stuck() {
  for (uint32_t i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.done || thread.waits == nullptr) continue;
    add_finding(at_barrier_ > 0 ? FindingKind::divergent_barrier : FindingKind::stuck,
                at_barrier_ > 0 ? barrier_line_ : thread.waits_at,
                std::string("every thread waits, this one in ") + thread.waits +
                    "; let all threads, and devices, that a wait is for come to it",
                i);
    return;
  }
}

void Block::report_no_wait() {
  for (uint32_t i = 0; i < count_; ++i) {
    if (threads_[i].in_order) continue;
    add_finding(FindingKind::no_wait, earlier_line_,
                "ended without wait_for_earlier; kernels behind this one wait for it alone, so let "
                "all its threads say that before any returns, or launch it without `overlaps`",
                i);
    return;
  }
}

void Block::add_finding(FindingKind kind, Line line, const std::string& text, uint32_t thread) {
  stopped_ = true;
  Finding finding;
  finding.kind = kind;
  finding.kernel = launch_.config->name;
  finding.file = line.file;
  finding.line = line.number;
  finding.text =
      "thread " + place(threads_[thread].index) + " of block " + place(blockIdx) + ": " + text;
  launch_.findings->push_back(std::move(finding));
}

void Block::fail(FindingKind kind, Line line, const std::string& text) {
  add_finding(kind, line, text, running_);
  throw Stopped();
}

}  // namespace tenon::cuda
