// Rows of a matrix, or whatever else is counted, shared out among the workers of a pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/base/threads/worker_pool.h"

namespace tenon::quantize {

// Rows that a worker takes at a time. A multiple of 32, so that words in which codes of
// neighbouring rows stand side by side have one writer.
inline constexpr uint64_t kShareRows = 32;

// Calls work(first, count) for rows 0 … n-1, `each` at a time, the last ones perhaps fewer. It must
// not throw.
template <typename Work>
void in_row_shares(WorkerPool& pool, uint64_t n, uint64_t each, const Work& work) {
  std::atomic<uint64_t> next = 0;
  pool.run([&](uint32_t) noexcept {
    for (uint64_t first = next.fetch_add(each); first < n; first = next.fetch_add(each)) {
      work(first, std::min(each, n - first));
    }
  });
}
// The same row by row: work(row).
template <typename Work>
void for_each_row(WorkerPool& pool, uint64_t n, const Work& work) {
  in_row_shares(pool, n, kShareRows, [&](uint64_t first, uint64_t count) {
    for (uint64_t row = first; row < first + count; ++row) work(row);
  });
}

}  // namespace tenon::quantize
