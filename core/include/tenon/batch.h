// One step's work, as kernels see it: the rows of several sequences.
//
// A row is one token position of one sequence. Rows of a sequence are consecutive, whether they are
// a whole prompt, a chunk of it, one generated token, or drafts to be verified. Positions rise by
// one from row to row, except where drafts form a tree: siblings share a position but not a slot.
//
// Captured graphs. What is launched depends on the padded counts alone; all else that a kernel
// knows of a step it reads from what its `plan` wrote. Arrays here are as long as `rows` and
// `sequences` say. An executor that captures graphs fills its copies on the device up to the padded
// counts, with token 0 and position 0; padding has no tables, and what is computed for it is
// ignored. An executor that captures nothing pads nothing.
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
  uint32_t drafts = 0;   // how many of the rows, the last ones, are drafts to be verified
  uint64_t adapter = 0;  // low-rank adapter of all its rows; 0 = the base model
};

// A KV group's part of the batch. Length and table belong to the group: a window, an eviction or
// a recurrence makes them differ between groups of one sequence. Recurrent groups have tables only.
struct BatchGroup {
  std::span<const uint32_t> slots;      // [rows] the entry that the row is stored at
  std::span<const uint32_t> kv_tokens;  // [sequences] entries there are once the rows are stored
  std::span<const KvTableView> tables;  // [sequences]
};

struct BatchView {
  uint64_t step_id = 0;
  uint32_t rows = 0;
  uint32_t padded_rows = 0;  // >= rows
  uint32_t padded_sequences = 0;
  std::span<const TokenId> tokens;      // [rows]; kNoToken where `inputs` has the row
  std::span<const uint32_t> positions;  // [rows, position_axes] for rotary embedding
  // [rows] the row that this one follows, -1 if it follows the cached entries. Empty: each row
  // follows the one before it. A row sees the entries in the cache before its sequence's rows, the
  // rows that lead to it, and itself.
  std::span<const int32_t> tree_parents;
  // [rows] the last row of its sequence that a row sees: encoders, diffusion, images inside a text
  // (fact attn.mask.spans). Empty: itself.
  std::span<const uint32_t> sees_to;
  std::span<const BatchSequence> sequences;
  std::span<const BatchGroup> groups;      // [group_count]
  std::span<const uint32_t> logits_rows;   // rows whose logits are wanted, rising
  std::span<const uint32_t> hidden_rows;   // rows whose hidden states are wanted, rising
  std::span<const LayerId> hidden_layers;  // after which layers; layer_count = the final norm
  // [rows, hidden] input in place of kNoToken, or in addition to a token; data null = nothing.
  TensorView inputs;
  DeviceQueue queue = nullptr;
};

}  // namespace tenon
