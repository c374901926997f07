// A fence that one thread makes for all threads of the process, so that the others need none.
//
// Two threads that each write one word and then read the other's must fence between the two, or
// both may miss the other's write. Where one of them does so thousands of times as often, the rare
// one can pay for both: Linux's membarrier interrupts every running thread of the process
// (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED).
#pragma once

#include <atomic>

namespace tenon {

// Asks the system for heavy fences. Cheap while the process has one thread, some milliseconds
// afterwards. False where the system has none or forbids them: then both sides must fence.
// Any thread may call it, as often as it likes.
bool enable_heavy_fences() noexcept;

// After `enable_heavy_fences` returned true: every other thread of the process has had a full
// fence when this returns. Takes microseconds.
void heavy_fence() noexcept;

// The other side's part: what stands before it in the program is not moved after it by the
// compiler. Costs nothing.
inline void light_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace tenon
