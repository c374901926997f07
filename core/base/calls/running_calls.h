// Which call of a plugin each thread is in: what a program says when nothing moves any more, when
// it is told to end, and when it crashes.
//
// Going in and out costs a relaxed store each. Names are kept for the rest of the process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A name for a call: "grow of kv_cache 'paged'". The same name has the same number. At most 65,535
// names are told apart. [any thread]
using CallName = uint16_t;
CallName name_call(std::string_view method, std::string_view who);
// Its text; "a plugin" for a number that names none. [any thread]
std::string_view call_text(CallName name);

namespace detail {

// One thread's calls, outermost first. A word is 0, or the name and before it a number that
// differs from call to call: a word that stays the same is a call that did not return.
// A cache line of its own: its thread writes it at every call.
struct alignas(64) CallSlot {
  static constexpr uint32_t kDepth = 4;  // deeper calls are not seen
  std::array<std::atomic<uint64_t>, kDepth> words{};
  std::atomic<CallName> last{0};  // of the calls that have returned
  std::atomic<bool> taken{false};
  uint64_t calls = 0;  // the thread's own, as the next
  uint32_t depth = 0;
};
extern thread_local constinit CallSlot* call_slot;
// The calling thread's from here on; one that nobody reads where there are too many threads.
CallSlot* take_call_slot() noexcept;

// Whether calls are kept (call_trace.h), and what keeps one that has just ended.
extern constinit std::atomic<bool> tracing_calls;
int64_t trace_now() noexcept;
void trace_call(CallName name, int64_t begin_ns) noexcept;

}  // namespace detail

// Around a call of a plugin.
class RunningCall {
 public:
  explicit RunningCall(CallName name) noexcept
      : slot_(detail::call_slot != nullptr ? detail::call_slot : detail::take_call_slot()),
        name_(name) {
    if (detail::tracing_calls.load(std::memory_order_relaxed)) begin_ns_ = detail::trace_now();
    const uint32_t depth = slot_->depth++;
    if (depth >= detail::CallSlot::kDepth) return;
    slot_->words[depth].store((++slot_->calls << 16) | name, std::memory_order_relaxed);
  }
  ~RunningCall() {
    if (begin_ns_ != 0) detail::trace_call(name_, begin_ns_);
    const uint32_t depth = --slot_->depth;
    if (depth >= detail::CallSlot::kDepth) return;
    slot_->words[depth].store(0, std::memory_order_relaxed);
    slot_->last.store(name_, std::memory_order_relaxed);
  }
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  detail::CallSlot* const slot_;
  const CallName name_;
  int64_t begin_ns_ = 0;  // where calls are traced
};

// Looks at all threads now and then, and knows since when each of their calls has been running.
class CallWatch {
 public:
  struct Late {
    const char* name = nullptr;  // of the call; null when there is none
    int64_t running_ns = 0;
  };
  // Times may come from any clock, but always the same.
  void look(int64_t now_ns);
  // Of the calls that have been running for `at_least_ns` or more as far as `look` has seen, the
  // one that has for longest. Where one such call is inside of another, the inner one is at fault.
  Late latest(int64_t at_least_ns) const;

 private:
  struct Seen {
    uint64_t word = 0;
    int64_t since_ns = 0;
  };
  std::vector<std::array<Seen, detail::CallSlot::kDepth>> seen_;
  int64_t now_ns_ = 0;
};

// What threads are in right now, the innermost call of each: "plan of scheduler 'fair'", two at
// most. The calling thread comes first. Returns the number of bytes written to `text`, not
// terminated. Safe in signal handlers.
size_t running_calls(char* text, size_t room) noexcept;
// Likewise the call that has returned last: the calling thread's, or another one's where it made
// none.
size_t last_call(char* text, size_t room) noexcept;

}  // namespace tenon
