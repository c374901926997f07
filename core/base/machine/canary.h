// Bytes after a buffer that a plugin is given: whoever writes there writes over something else.
#pragma once

#include <cstddef>
#include <cstring>

namespace tenon {

inline constexpr size_t kCanaryBytes = 64;
inline constexpr unsigned char kCanary = 0xc5;

inline void set_canary(void* behind) noexcept {
  std::memset(behind, kCanary, kCanaryBytes);
}
inline bool canary_lives(const void* behind) noexcept {
  unsigned char expected[kCanaryBytes];
  std::memset(expected, kCanary, kCanaryBytes);
  return std::memcmp(behind, expected, kCanaryBytes) == 0;
}

}  // namespace tenon
