#include "core/exec/cpu/products/adapter_rows.h"

#include <algorithm>

namespace tenon {

void AdapterRows::reserve(uint32_t rows, uint32_t adapters) {
  rows_.reserve(rows);
  ends_.assign(size_t{adapters} + 1, 0);
  of_.reserve(adapters);
}

void AdapterRows::sort(std::span<const uint32_t> adapters) {
  std::ranges::fill(ends_, 0u);
  for (const uint32_t adapter : adapters) ++ends_[adapter];
  uint32_t first = 0;
  for (uint32_t& end : ends_) {
    const uint32_t count = end;
    end = first;
    first += count;
  }
  rows_.resize(adapters.size());
  for (uint32_t row = 0; row < adapters.size(); ++row) rows_[ends_[adapters[row]]++] = row;
  const std::span<const uint32_t> all = rows_;
  without_ = all.first(ends_[0]);
  of_.clear();
  for (uint32_t i = 1; i < ends_.size(); ++i) {
    if (ends_[i] == ends_[i - 1]) continue;
    of_.push_back({i - 1, all.subspan(ends_[i - 1], ends_[i] - ends_[i - 1])});
  }
}

}  // namespace tenon
