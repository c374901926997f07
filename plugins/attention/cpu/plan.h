// Who computes what in one step: work items of one KV group, shared out over slices by cost.
//
// How the work is cut has no influence on any bit: rows do not depend on their neighbours, and
// ranges of positions are merged in the same order whether one slice or several computed them.
#pragma once

#include <tenon/attention.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/attention/cpu/kernels.h"

namespace tenon::attention_cpu {

struct PlanLimits {
  uint32_t slices = 1;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  uint32_t context_tokens = 0;
  uint32_t kv_heads = 0;
  uint32_t largest_group = 0;    // query heads a KV head, the most of all layers
  uint32_t window_tokens = 0;    // 0 = unlimited; for estimates of cost only
  uint64_t partial_queries = 0;  // room for partial results
};

// Rows of one sequence that an item may have at most.
uint32_t rows_per_item(uint32_t largest_group);
// Partial results that a step can put to use at most.
uint64_t useful_partials(const PlanLimits& limits);

class WorkPlan {
 public:
  // Reserves all memory that `make` will need. Throws std::bad_alloc.
  explicit WorkPlan(const PlanLimits& limits);

  // Plans a step of at most max_rows rows and max_sequences sequences. Never allocates.
  void make(GroupId group, const BatchView& batch);

  // The items of one share of limits().slices equal ones.
  std::span<const WorkItem> share(uint32_t index) const;
  // Items whose ranges are merged when all shares are done.
  std::span<const SplitItem> split_items() const { return splits_; }
  const PlanLimits& limits() const { return limits_; }

 private:
  void add_rows(const BatchView& batch, const BlockId* blocks, uint32_t first_row,
                uint32_t last_row);
  uint64_t cost(const WorkItem& item, uint32_t last_position) const;
  void split_large_items(const BatchView& batch);
  void add_heads(const WorkItem& item);
  void split(const WorkItem& item, uint32_t pieces);
  void share_out(const BatchView& batch);
  void join_heads();

  PlanLimits limits_;
  std::vector<WorkItem> whole_;  // all heads together, before they are cut
  std::vector<WorkItem> items_;
  std::vector<SplitItem> splits_;
  std::vector<uint32_t> share_begin_;  // [slices + 1]
  uint64_t partial_queries_ = 0;
};

}  // namespace tenon::attention_cpu
