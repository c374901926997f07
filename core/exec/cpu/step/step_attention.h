// The attention kernels of a loaded model: the memory they work with, and what a step asks of them.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/exec/cpu/blocks/chosen_batch.h"
#include "core/exec/executor.h"
#include "core/exec/host_memory.h"
#include "core/exec/index_rows.h"

namespace tenon {

// The groups whose windows are chunks (SelfAttentionPlan::window_chunks).
std::vector<GroupId> chunked_groups(const ModelPlan& plan, const ModelShape& shape);

class StepAttention {
 public:
  struct Limits {
    uint32_t max_rows = 0;
    uint32_t max_sequences = 0;
    uint32_t slices = 1;
    std::vector<GroupId> chunked = {};  // groups whose windows are chunks
  };
  // Binds the kernels to the groups that keep K/V. All arguments outlive this. Errors of kernels
  // are led by `attention 'cpu'`.
  Status load(const AttentionKernels& kernels, const ModelShape& shape,
              std::span<const KvGroupStorage> storage, const IndexedLayers& indexed,
              const Limits& limits);

  // Once a step, before any `run`; the batch stays valid until the last one.
  Status plan(const BatchView& batch);
  uint32_t phases(LayerId layer) const {
    const uint32_t own = phases_[shape_->layers[layer].group];
    return indexed_->most > 0 ? std::max(own, phases_[chosen_.group()]) : own;
  }
  // Of a plan with an index: rows that attend to a choice, which must be there, with their K,
  // before `run`.
  const RowsToChoose& rows_to_choose() const { return to_choose_; }
  const ChosenBatch& chosen() const { return chosen_; }
  // This slice's share of one phase, in every kernel that has something to do in it. A barrier
  // belongs behind each phase: K and V that one kernel stores may be read by the other.
  Status run(AttentionCall call, uint32_t phase, Slice slice) const;
  // Behind the barrier of the last phase: adds what weight this layer's rows gave to entries, in
  // every kernel (AttentionScores).
  Status score(AttentionCall call, std::span<uint64_t* const> sums, Slice slice) const;
  // An error of one of the kernels, whichever it was.
  Status named(const Status& status) const;
  // Behind the last `run`: whether kernels kept to their plans and workspaces.
  Status check_rooms() const;
  // The error of the kernels having written behind `room`, which all of them may write.
  Status wrote_behind(std::string_view room) const;

  bool serves() const { return !serving_.empty(); }  // whether any layer attends
  // Of each kernel once, where they differ with what they serve.
  std::string numerics() const;
  std::vector<MemoryPart> workspaces() const;

 private:
  struct GroupMemory {
    HostMemory plan;
    HostMemory workspace;
    uint32_t phases = 0;  // of the step; 0: it has no sequence for this kernel
  };
  struct Serving {
    NamedAttention attention;
    std::vector<GroupMemory> groups;  // [group_count], and one for chosen entries
    std::vector<uint32_t> sequences;  // of the step
    std::vector<uint32_t> rows;       // … that attend to chosen entries
  };
  Status set_chunks(const Serving& serving, std::span<const GroupId> groups) const;
  Status bind(Serving& serving, std::span<const KvGroupStorage> storage, const Limits& limits);
  void share_out(const BatchView& batch);
  Status plan(Serving& serving, GroupId group, const BatchView& batch,
              std::span<const uint32_t> sequences);
  Status run(const Serving& serving, GroupId group, AttentionCall call, uint32_t phase,
             Slice slice) const;
  std::string names() const;  // of all kernels

  const ModelShape* shape_ = nullptr;
  const IndexedLayers* indexed_ = nullptr;
  RowsToChoose to_choose_;
  ChosenBatch chosen_;
  std::vector<GroupId> groups_;   // that keep K/V
  std::vector<Serving> serving_;  // one for all, or prompts' and the others'
  // [group_count, and one for chosen entries] of the step, the most of all kernels
  std::vector<uint32_t> phases_;
  const BatchView* batch_ = nullptr;
};

}  // namespace tenon
