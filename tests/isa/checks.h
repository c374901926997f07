// What the programs of this folder check with: they are compiled for instruction sets of another
// processor too, where no library of tests is.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>

// The name of a set, which is a word of the compiler's.
#define TENON_TEXT_OF(name) #name
#define TENON_TEXT(name) TENON_TEXT_OF(name)

namespace tenon::checks {

inline int& failures() {
  static int count = 0;
  return count;
}
inline int& total() {
  static int count = 0;
  return count;
}

inline void check(bool holds, const char* what, long first = 0, long second = 0) {
  ++total();
  if (holds || ++failures() > 20) return;
  std::printf("wrong: %s (%ld, %ld)\n", what, first, second);
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
// Equal bits; every NaN is as good as another.
inline bool same(float a, float b) {
  return bits_of(a) == bits_of(b) || (a != a && b != b);
}

// Marsaglia's xorshift, the same everywhere.
class Numbers {
 public:
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    return state_ ^= state_ << 5;
  }
  // -1 … 1
  float unit() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }

 private:
  uint32_t state_ = 2463534242u;
};

// The status of the program.
inline int result(const char* set) {
  std::printf("%s: %d checks, %d wrong\n", set, total(), failures());
  return failures() == 0 ? 0 : 1;
}

}  // namespace tenon::checks
