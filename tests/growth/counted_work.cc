#include "tests/growth/counted_work.h"

namespace {

uint64_t counted = 0;

// What the C library does to so many bytes, as if a block had done it to 32 at a time.
void count_bytes(size_t bytes) __attribute__((no_sanitize_coverage));
void count_bytes(size_t bytes) {
  counted += 1 + bytes / 32;
}

}  // namespace

#define TENON_UNCOUNTED \
  __attribute__((no_sanitize_coverage, optimize("no-tree-loop-distribute-patterns")))

extern "C" {

void __sanitizer_cov_trace_pc();

// These stand in for the C library's, whose loops have no blocks of ours.
void* counted_memcpy(void* to, const void* from, size_t bytes) __asm__("memcpy");
void* counted_memmove(void* to, const void* from, size_t bytes) __asm__("memmove");
void* counted_memset(void* to, int value, size_t bytes) __asm__("memset");
int counted_memcmp(const void* left, const void* right, size_t bytes) __asm__("memcmp");
void* counted_memchr(const void* in, int value, size_t bytes) __asm__("memchr");
size_t counted_strlen(const char* text) __asm__("strlen");

TENON_UNCOUNTED void __sanitizer_cov_trace_pc() {
  ++counted;
}

TENON_UNCOUNTED void* counted_memcpy(void* to, const void* from, size_t bytes) {
  count_bytes(bytes);
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < bytes; ++i) out[i] = in[i];
  return to;
}

TENON_UNCOUNTED void* counted_memmove(void* to, const void* from, size_t bytes) {
  count_bytes(bytes);
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  if (out <= in) {
    for (size_t i = 0; i < bytes; ++i) out[i] = in[i];
  } else {
    for (size_t i = bytes; i-- > 0;) out[i] = in[i];
  }
  return to;
}

TENON_UNCOUNTED void* counted_memset(void* to, int value, size_t bytes) {
  count_bytes(bytes);
  auto* out = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<unsigned char>(value);
  return to;
}

TENON_UNCOUNTED int counted_memcmp(const void* left, const void* right, size_t bytes) {
  const auto* a = static_cast<const unsigned char*>(left);
  const auto* b = static_cast<const unsigned char*>(right);
  size_t same = 0;
  while (same < bytes && a[same] == b[same]) ++same;
  count_bytes(same);
  return same == bytes ? 0 : a[same] - b[same];
}

TENON_UNCOUNTED void* counted_memchr(const void* in, int value, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(in);
  const auto wanted = static_cast<unsigned char>(value);
  size_t passed = 0;
  while (passed < bytes && at[passed] != wanted) ++passed;
  count_bytes(passed);
  return passed == bytes ? nullptr : const_cast<unsigned char*>(at + passed);
}

TENON_UNCOUNTED size_t counted_strlen(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  count_bytes(length);
  return length;
}

}  // extern "C"

namespace tenon::growth {

uint64_t work() {
  return counted;
}

std::string growth_fault(size_t size, const Maker& make, const Reading& read) {
  uint64_t took[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    const std::string input = make(size << i);
    took[i] = work_of([&] { read(input); });
  }
  // Of work a + b·n the second growth is twice the first, of c·n² four times. Half as much again is
  // left to logarithms, and to tables that grow now and then.
  const uint64_t first = took[1] - took[0], second = took[2] - took[1];
  if (took[0] <= took[1] && took[1] <= took[2] && second <= 3 * first) return {};
  return "work at " + std::to_string(size) +
         ", twice and four times that: " + std::to_string(took[0]) + ", " +
         std::to_string(took[1]) + ", " + std::to_string(took[2]);
}

}  // namespace tenon::growth
