// Lays the sequences of a step side by side, as kernels see them.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>
#include <tenon/scheduler.h>

#include <span>
#include <vector>

#include "core/engine/step.h"

namespace tenon {

class BatchBuilder {
 public:
  BatchBuilder(const SchedulerLimits& limits, uint32_t group_count);

  // Reads each share (base, tokens, drafts) and writes where its rows stand. The view
  // is valid until the next call; its tables until the manager changes these sequences.
  Result<BatchView> build(uint64_t step_id, std::span<Share> shares, KVCacheManager& manager);

 private:
  void add_rows(Share& share);

  uint32_t group_count_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> slots_;
  std::vector<uint32_t> logits_rows_;
  std::vector<BatchSequence> sequences_;
  std::vector<KvTableView> tables_;  // [sequences, group_count]
};

}  // namespace tenon
