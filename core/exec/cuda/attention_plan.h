// A step's sequences in one KV group, as the attention kernels read them.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <vector>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

struct AttentionPlanArrays {
  std::vector<AttentionSequence> sequences;
  std::vector<AttentionTile> tiles;  // behind the others, those of trees
  std::vector<int32_t> tables;
  // [rows]
  std::vector<uint32_t> slots, row_sequence;
  std::vector<uint32_t> blocks, offsets;  // where the row is stored
  std::vector<uint32_t> parents;          // [rows]; empty: no sequence's rows form a tree
  int warps = 1;                          // of a tile, but for those of trees
  uint32_t tree_tiles = 0;
  uint32_t splits = 1;                    // of the longest sequence
};

// `heads` query heads share the group's KV heads. The batch has passed check_batch.
AttentionPlanArrays plan_attention(const BatchView& batch, GroupId id, const KvGroup& group,
                                   uint32_t block_tokens, uint32_t heads);

}  // namespace tenon::cuda
