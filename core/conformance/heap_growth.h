// How much memory is lost by doing something again and again.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdint>

#include "core/base/quote.h"
#include "core/conformance/battery.h"

namespace tenon {

// Bytes that malloc has handed out and not taken back; 0 where it does not tell.
inline uint64_t heap_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  return ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
#else
  return 0;
#endif
}

// The heap's growth in each of `rounds` rounds of `once`, in bytes, after as many to warm up. What
// an allocator keeps for later comes once; what is lost comes again and again, so the smaller one
// of two measurements counts. Error: that of `once`.
template <typename Once>
Result<uint64_t> growth_of(uint32_t rounds, Once once) {
  uint64_t before = 0, least = UINT64_MAX;
  for (uint32_t measured = 0; measured < 3; ++measured) {
    for (uint32_t i = 0; i < rounds; ++i) TENON_RETURN_IF_ERROR(once());
    const uint64_t now = heap_bytes();
    if (measured > 0) least = std::min(least, now - std::min(now, before));
    before = now;
  }
  return least / rounds;
}

// Whether an instance forgets sequences that have ended; `live` lets one begin, be worked on and
// end, and keeps nothing itself. Ids rise, as those of an engine do. Each count is four times the
// one before it, so that a table which doubles when it is full is seen to grow, and what the
// process does beside it is not; once growth is small, the rest is spared.
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
