// How much memory is lost by doing something again and again.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/quote.h"
#include "core/conformance/battery.h"

namespace tenon {

// Bytes that malloc has handed out and not taken back; 0 where it does not tell. What a thread
// keeps of what it freed (glibc's tcache) counts as handed out, up to a quarter of a megabyte:
// processes of cases are started without it (tools/tenon/process/case_process.cc).
inline uint64_t heap_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  return ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
#else
  return 0;
#endif
}

// The heap's growth in each round of `once`, in bytes, after `rounds` to warm up; none where it is
// `harmless` bytes at most. What is lost comes again and again, and four times as much of it in
// four times the rounds. What grows once, or each time that a table is full, does not: so the least
// of three measurements counts, the last one over four times as many rounds. Error: that of `once`.
template <typename Once>
Result<std::optional<uint64_t>> growth_of(uint32_t rounds, uint64_t harmless, Once once) {
  for (uint32_t i = 0; i < rounds; ++i) TENON_RETURN_IF_ERROR(once());
  uint64_t before = heap_bytes(), least = UINT64_MAX;
  for (const uint32_t times : {1, 1, 4}) {
    for (uint32_t i = 0; i < times * rounds; ++i) TENON_RETURN_IF_ERROR(once());
    const uint64_t now = heap_bytes();
    least = std::min(least, (now - std::min(now, before)) / (times * rounds));
    if (least <= harmless) return std::optional<uint64_t>();
    before = now;
  }
  return std::optional(least);
}

// Whether an instance forgets sequences that have ended; `live` lets one begin, be worked on and
// end, and keeps nothing itself. Ids rise, as those of an engine do. Each count is four times the
// one before it, so that a table which doubles when it is full is seen to grow in each, and what
// comes once, in one at most; once growth is small, the rest is spared.
template <typename Live>
Finding forgets_the_ended(uint32_t effort, Live live) {
  constexpr double kBytes = 3.5;  // a number a sequence
  SeqId next = 1;
  uint64_t before = 0;
  double least = 0;
  for (SeqId until = 256 * effort; until <= 16384 * effort; until *= 4) {
    const SeqId first = next;
    for (; next <= until; ++next) {
      if (const Status status = live(next); !status.ok()) return broke(message_of(status));
    }
    const uint64_t now = heap_bytes();
    const double grown = static_cast<double>(now) - static_cast<double>(before);
    before = now;
    if (first == 1) continue;
    const double each = grown / (until - first + 1);
    if (each < kBytes) return {};
    least = least == 0 ? each : std::min(least, each);
  }
  return {CaseVerdict::leak, std::to_string(static_cast<uint64_t>(least)) +
                                 " bytes are kept for each sequence that has ended"};
}

}  // namespace tenon
