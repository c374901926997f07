// One step's work, as kernels see it: rows of several sequences side by side.
//
// A row is one token position of one sequence. Rows of a sequence are consecutive and in rising
// position, whether they are a whole prompt, a chunk of it, one generated token, or draft tokens
// to be verified.
#pragma once

#include <tenon/kv_cache.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

struct BatchSequence {
  SeqId seq = kNoSeq;
  uint32_t first_row = 0;
  uint32_t rows = 0;
  // Positions 0 … kv_tokens-1 are in the cache once this step's rows have been stored. Kept apart
  // from positions, which differ when rows form a tree.
  uint32_t kv_tokens = 0;
  std::span<const KvTableView> tables;  // [group_count]
};

struct BatchView {
  uint64_t step_id = 0;
  uint32_t rows = 0;
  uint32_t padded_rows = 0;               // >= rows; the rest is computed and ignored
  std::span<const TokenId> tokens;        // [rows]
  std::span<const uint32_t> positions;    // [rows] for rotary embedding and masks
  std::span<const uint32_t> slots;        // [rows] KV position that the row is stored at
  std::span<const int32_t> tree_parents;  // [rows] row that a draft row follows; empty = chain
  std::span<const BatchSequence> sequences;
  std::span<const uint32_t> logits_rows;  // rows whose logits are wanted, rising
  void* queue = nullptr;                  // device queue; null on the host
};

}  // namespace tenon
