// How the columns of a product are divided among ranks: contiguous, in whole units, in rank order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon {

// Elements [starts[r], starts[r + 1]) are rank r's.
using ColumnStarts = std::vector<uint32_t>;  // [ranks + 1]

// Shares that differ by one unit at most; ranks may get none where there are fewer units.
inline ColumnStarts cut_columns(uint32_t columns, uint32_t unit, uint32_t ranks) {
  ColumnStarts starts;
  const uint64_t units = (uint64_t{columns} + unit - 1) / unit;
  for (uint64_t rank = 0; rank <= ranks; ++rank) {
    starts.push_back(
        static_cast<uint32_t>(std::min<uint64_t>(columns, units * rank / ranks * unit)));
  }
  return starts;
}

}  // namespace tenon
