// A step's sequences in one KV group, as the attention kernels read them.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// Which of the ways that change no bit rows take.
struct AttentionWays {
  uint64_t most_ranges = 1 << 14;    // whose results there is room for
  uint32_t wide_items = kWideItems;  // from which on a sequence has wide tiles
};

struct AttentionPlanArrays {
  std::vector<AttentionSequence> sequences;
  std::vector<AttentionTile> tiles;  // as AttentionArrays has them
  std::vector<int32_t> tables;
  // [rows]
  std::vector<uint32_t> slots, row_sequence, first_ranges;
  std::vector<uint32_t> blocks, offsets;  // where the row is stored
  std::vector<uint32_t> parents;          // [rows]; empty: no sequence's rows form a tree
  std::vector<uint32_t> split_rows;
  uint32_t wide_tiles = 0;
  uint32_t tree_tiles = 0;
  uint32_t splits = 1;
  uint64_t ranges = 0;  // whose results are kept

  // What kernels read of it.
  void describe(AttentionShape& shape) const;
};

// `heads` query heads share the group's KV heads. The batch has passed check_batch.
AttentionPlanArrays plan_attention(const BatchView& batch, GroupId id, const KvGroup& group,
                                   uint32_t block_tokens, uint32_t heads,
                                   const AttentionWays& ways = {});

}  // namespace tenon::cuda
