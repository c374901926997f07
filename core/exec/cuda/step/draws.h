// Tokens that are drawn on the device: what a step needs there for it, and what one step's rows
// became.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"
#include "core/exec/row_draw.h"

namespace tenon::cuda {

DrawRow draw_row(const RowDraw& draw);

// On the device, for the step that runs.
struct DrawArrays {
  DrawRow* rows = nullptr;
  int32_t* tokens = nullptr;
  double* weights = nullptr;

  static uint64_t bytes_for(uint64_t rows, uint32_t vocabulary) {
    return rows * (sizeof(DrawRow) + sizeof(int32_t) + draw_blocks(vocabulary) * sizeof(double));
  }
};

// On the host, of a step on the queue.
class DrawnRows {
 public:
  explicit DrawnRows(Driver& driver) : tokens_(driver) {}

  Status begin(std::span<const RowDraw> draws, uint32_t logits_rows);
  const std::vector<DrawRow>& draws() const { return draws_; }
  bool any() const { return !draws_.empty(); }
  int32_t* arriving() const { return reinterpret_cast<int32_t*>(tokens_.data()); }
  // Calls function(first, end) for the rows of logits that nothing was drawn from; stops where it
  // fails.
  template <typename Function>
  Status for_others(Function&& function) const {
    uint32_t first = 0;
    for (const DrawRow& draw : draws_) {
      if (first < draw.logits_row) TENON_RETURN_IF_ERROR(function(first, draw.logits_row));
      first = draw.logits_row + 1;
    }
    return first < logits_rows_ ? function(first, logits_rows_) : Status();
  }
  // The tokens have arrived. Calls function(row) for rows that were left undrawn.
  template <typename Function>
  Status settle(Function&& undrawn) {
    tokens_of_rows_.assign(any() ? logits_rows_ : 0, kNoToken);
    for (size_t i = 0; i < draws_.size(); ++i) {
      const uint32_t row = draws_[i].logits_row;
      tokens_of_rows_[row] = arriving()[i];
      if (arriving()[i] < 0) TENON_RETURN_IF_ERROR(undrawn(row));
    }
    return {};
  }
  // [rows of logits], or none.
  std::span<const TokenId> tokens() const { return tokens_of_rows_; }

 private:
  std::vector<DrawRow> draws_;
  uint32_t logits_rows_ = 0;
  PinnedMemory tokens_;
  std::vector<TokenId> tokens_of_rows_;
};

}  // namespace tenon::cuda
