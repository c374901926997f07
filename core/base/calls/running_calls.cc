#include "core/base/calls/running_calls.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace tenon {
namespace {

constexpr size_t kMostNames = 65536;
constexpr size_t kMostSlots = 1024;  // twice what a pool of workers can have

using detail::CallSlot;

// Signal handlers and watching threads read these at any time, also while the process exits.
std::atomic<const char*> names[kMostNames];
CallSlot slots[kMostSlots];

struct Naming {
  std::mutex mutex;
  std::map<std::string, CallName, std::less<>> known;
};
Naming& naming() {
  static Naming* instance = new Naming;
  return *instance;
}

const char* name_of(uint64_t word) {
  const char* name = names[word & 0xffff].load(std::memory_order_acquire);
  return name == nullptr ? "a plugin" : name;
}

// Gives the slot back when its thread ends.
struct SlotHolder {
  CallSlot* slot = nullptr;
  ~SlotHolder() {
    detail::call_slot = nullptr;
    if (slot != nullptr) slot->taken.store(false, std::memory_order_release);
  }
};
thread_local SlotHolder holder;
// Of threads that found every slot taken, and of those that are ending.
thread_local constinit CallSlot unseen;

uint64_t innermost(const CallSlot& slot) {
  for (size_t depth = CallSlot::kDepth; depth-- > 0;) {
    const uint64_t word = slot.words[depth].load(std::memory_order_relaxed);
    if (word != 0) return word;
  }
  return 0;
}

size_t append(char* text, size_t at, size_t room, const char* more) {
  while (*more != 0 && at < room) text[at++] = *more++;
  return at;
}

}  // namespace

namespace detail {

thread_local constinit CallSlot* call_slot = nullptr;

CallSlot* take_call_slot() noexcept {
  call_slot = &unseen;
  for (CallSlot& slot : slots) {
    if (slot.taken.exchange(true, std::memory_order_acq_rel)) continue;
    holder.slot = call_slot = &slot;
    break;
  }
  return call_slot;
}

}  // namespace detail

CallName name_call(std::string_view method, std::string_view who) {
  std::string name(method);
  name.append(" of ").append(who);
  const std::lock_guard lock(naming().mutex);
  auto& known = naming().known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  if (known.size() + 1 == kMostNames) return 0;
  const auto number = static_cast<CallName>(known.size() + 1);
  const auto kept = known.emplace(std::move(name), number).first;
  names[number].store(kept->first.c_str(), std::memory_order_release);
  return number;
}

std::string_view call_text(CallName name) {
  return name_of(name);
}

void CallWatch::look(int64_t now_ns) {
  now_ns_ = now_ns;
  seen_.resize(kMostSlots);
  for (size_t i = 0; i < kMostSlots; ++i) {
    for (size_t depth = 0; depth < CallSlot::kDepth; ++depth) {
      const uint64_t word = slots[i].words[depth].load(std::memory_order_relaxed);
      if (word != seen_[i][depth].word) seen_[i][depth] = {word, now_ns};
    }
  }
}

CallWatch::Late CallWatch::latest(int64_t at_least_ns) const {
  Late latest;
  for (const auto& calls : seen_) {
    const auto late = std::find_if(calls.rbegin(), calls.rend(), [&](const Seen& call) {
      return call.word != 0 && now_ns_ - call.since_ns >= at_least_ns;
    });
    if (late == calls.rend()) continue;
    const int64_t running_ns = now_ns_ - late->since_ns;
    if (latest.name == nullptr || running_ns > latest.running_ns) {
      latest = {name_of(late->word), running_ns};
    }
  }
  return latest;
}

size_t running_calls(char* text, size_t room) noexcept {
  const CallSlot* own = detail::call_slot;
  uint64_t first = own == nullptr ? 0 : innermost(*own);
  size_t at = first == 0 ? 0 : append(text, 0, room, name_of(first));
  for (const CallSlot& slot : slots) {
    const uint64_t word = &slot == own ? 0 : innermost(slot);
    if (word == 0) continue;
    if (first == 0) {
      first = word;
      at = append(text, at, room, name_of(word));
    } else if ((first ^ word) << 48 != 0) {
      return append(text, append(text, at, room, " and "), room, name_of(word));
    }
  }
  return at;
}

size_t last_call(char* text, size_t room) noexcept {
  const CallSlot* own = detail::call_slot;
  CallName last = own == nullptr ? 0 : own->last.load(std::memory_order_relaxed);
  for (const CallSlot& slot : slots) {
    if (last == 0) last = slot.last.load(std::memory_order_relaxed);
  }
  return last == 0 ? 0 : append(text, 0, room, name_of(last));
}

}  // namespace tenon
