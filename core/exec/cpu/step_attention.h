// The attention kernels of a loaded model: the memory they work with, and what a step asks of them.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/exec/executor.h"
#include "core/exec/host_memory.h"

namespace tenon {

class StepAttention {
 public:
  struct Limits {
    uint32_t max_rows = 0;
    uint32_t max_sequences = 0;
    uint32_t slices = 1;
  };
  // Binds the kernels to the groups that keep K/V. All arguments outlive this. Errors of kernels
  // are led by `attention 'cpu'`.
  Status load(const AttentionKernels& kernels, const ModelShape& shape,
              std::span<const KvGroupStorage> storage, const Limits& limits);

  // Once a step, before any `run`; the batch stays valid until the last one.
  Status plan(const BatchView& batch);
  uint32_t phases(LayerId layer) const { return phases_[shape_->layers[layer].group]; }
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
    std::vector<GroupMemory> groups;  // [group_count]
    std::vector<uint32_t> sequences;  // of the step
  };
  Status bind(Serving& serving, std::span<const KvGroupStorage> storage, const Limits& limits);
  void share_out(const BatchView& batch);
  std::string names() const;  // of all kernels

  const ModelShape* shape_ = nullptr;
  std::vector<GroupId> groups_;   // that keep K/V
  std::vector<Serving> serving_;  // one for all, or prompts' and the others'
  std::vector<uint32_t> phases_;  // [group_count] of the step, the most of all kernels
  const BatchView* batch_ = nullptr;
};

}  // namespace tenon
