// Who computes what in one step: work items of one KV group, shared out over slices by cost.
//
// How the work is cut has no influence on any bit: rows do not depend on their neighbours, and
// ranges of positions are merged in the same order whether one slice or several computed them.
#pragma once

#include <tenon/attention.h>

#include <cstdint>
#include <span>

#include "plugins/attention/cpu/kernels.h"

namespace tenon::attention_cpu {

struct PlanLimits {
  uint32_t slices = 1;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  uint32_t context_tokens = 0;
  uint32_t kv_heads = 0;
  uint32_t largest_group = 0;  // query heads a KV head, the most of all layers
  uint32_t window_tokens = 0;
  bool chunks = false;  // the window is a chunk (AttentionChunks)
  bool latent = false;
  uint64_t partial_queries = 0;  // room for partial results
};

// Rows of one sequence that an item may have at most.
uint32_t rows_per_item(const PlanLimits& limits);
// Partial results that a step can put to use at most.
uint64_t useful_partials(const PlanLimits& limits);

// The start of the memory that `plan` fills; the arrays follow it.
struct StepPlan {
  const BatchView* batch = nullptr;
  const BatchGroup* group = nullptr;
  std::span<const uint32_t> sequences;  // of the batch, that are this kernel's
  uint32_t rows = 0;                    // of these sequences
  bool stores_first = true;             // rows read what other rows of the step store
  uint32_t slices = 1;
  Visible* seen = nullptr;    // [rows of the batch]
  WorkItem* whole = nullptr;  // all heads together, before they are cut
  WorkItem* items = nullptr;
  SplitItem* splits = nullptr;
  uint32_t* share_begin = nullptr;  // [slices + 1]
  uint32_t whole_count = 0;
  uint32_t item_count = 0;
  uint32_t split_count = 0;
  uint64_t partial_queries = 0;

  // The items of one share of `slices` equal ones.
  std::span<const WorkItem> share(uint32_t index) const {
    return {items + share_begin[index], items + share_begin[index + 1]};
  }
  // Items whose ranges are merged when all shares are done.
  std::span<const SplitItem> split_items() const { return {splits, split_count}; }
};

uint64_t plan_bytes(const PlanLimits& limits);
// Plans a step of at most max_rows rows and max_sequences sequences. Never allocates.
const StepPlan& make_plan(const PlanLimits& limits, const AttentionPlan& call);

}  // namespace tenon::attention_cpu
