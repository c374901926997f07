// Which rows of a step have which low-rank adapter.
#pragma once

#include <tenon/batch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Rows that are computed together, sorted by their adapter; within one they rise.
class AdapterRows {
 public:
  struct OfAdapter {
    uint32_t adapter = 0;  // its index
    std::span<const uint32_t> rows;
  };

  // Makes room for so many rows and adapters.
  void reserve(uint32_t rows, uint32_t adapters);
  // adapters[i]: that of row i as BatchSequence has it, 0 for the base model.
  void sort(std::span<const uint32_t> adapters);

  // Those that rows have, rising.
  std::span<const OfAdapter> adapters() const { return of_; }
  std::span<const uint32_t> without() const { return without_; }  // rows of the base model

 private:
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> ends_;  // [adapters + 2] of each in `rows_`, while sorting
  std::vector<OfAdapter> of_;
  std::span<const uint32_t> without_;
};

}  // namespace tenon
