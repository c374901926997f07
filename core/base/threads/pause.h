// Between two looks at a word that another thread is going to write.
#pragma once

namespace tenon {

// Leaves the core's other thread, and the line that is looked at, alone for a moment.
inline void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` does nothing on cores with one thread.
  __asm__ volatile("isb" ::: "memory");
#endif
}

}  // namespace tenon
