// How this thread computes with floating point: rounding, subnormals, which faults trap. Code that
// is not ours may change it: a library linked with -ffast-math does when it is loaded.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tenon {

// The controls alone, not the flags that say what happened.
class FloatingPointState {
 public:
  // Of the calling thread.
  static FloatingPointState current() noexcept {
    FloatingPointState state;
#if defined(__x86_64__)
    state.sse_ = _mm_getcsr() & kSseControls;
    __asm__ volatile("fnstcw %0" : "=m"(state.x87_));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(state.fpcr_));
#endif
    return state;
  }

  // Makes it the calling thread's. Costs nothing to speak of where nothing differs.
  void restore() const noexcept {
    const FloatingPointState now = current();
#if defined(__x86_64__)
    if (now.sse_ != sse_) _mm_setcsr((_mm_getcsr() & ~kSseControls) | sse_);
    if (now.x87_ != x87_) __asm__ volatile("fldcw %0" : : "m"(x87_));
#elif defined(__aarch64__)
    if (now.fpcr_ != fpcr_) __asm__ volatile("msr fpcr, %0" : : "r"(fpcr_));
#else
    static_cast<void>(now);
#endif
  }

  friend bool operator==(const FloatingPointState&, const FloatingPointState&) = default;

 private:
#if defined(__x86_64__)
  static constexpr uint32_t kSseControls = 0xffc0;  // DAZ, masks, rounding, FTZ; below: flags
  uint32_t sse_ = 0;
  uint16_t x87_ = 0;
#elif defined(__aarch64__)
  uint64_t fpcr_ = 0;
#endif
};

// Put around a call into foreign code: after it, the state is what it was before.
class KeepFloatingPointState {
 public:
  KeepFloatingPointState() noexcept : before_(FloatingPointState::current()) {}
  ~KeepFloatingPointState() { before_.restore(); }
  KeepFloatingPointState(const KeepFloatingPointState&) = delete;
  KeepFloatingPointState& operator=(const KeepFloatingPointState&) = delete;

 private:
  FloatingPointState before_;
};

}  // namespace tenon
