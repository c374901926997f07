// The contents of every slot of recurrent state, as far as the host can know: after which row it
// was written. The counterpart of KvContents, which names the rows: a step is refused, before it
// runs, that would start from the state of other tokens than its sequences' own, or that writes to
// a slot which somebody else reads or writes in it.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace tenon {

class StateContents {
 public:
  using RowName = uint64_t;  // 0 = nothing was written, or nobody knows
  // One sequence's rows in a step.
  struct Rows {
    SeqId seq = kNoSeq;
    uint32_t base = 0;   // tokens before them
    RowName before = 0;  // the name of the last of these
    std::span<const RowName> names;
  };

  StateContents(const ModelShape& shape, const KvGeometry& geometry);

  bool empty() const { return groups_.empty(); }
  // Carried out before the next step. In range.
  void move(const KvMove& move);

  void begin_step() { ++step_; }
  // For all sequences of a step before `write` is called for any.
  Status start(const BatchView& batch, size_t index, const Rows& rows);
  Status write(const BatchView& batch, size_t index, const Rows& rows);

 private:
  struct Group {
    GroupId id = 0;
    std::vector<RowName> slots, swap_slots;
    std::vector<uint64_t> read_in, written_in;  // [slots] the latest step
  };

  std::vector<Group> groups_;
  uint64_t step_ = 0;
};

}  // namespace tenon
