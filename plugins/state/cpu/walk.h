// A layer's call, and the way of a sequence's rows over a part of its state.
#pragma once

#include <tenon/state.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "plugins/state/cpu/kernels.h"
#include "plugins/state/cpu/layer.h"
#include "plugins/state/cpu/plan.h"

namespace tenon::state_cpu {

// One layer's call.
struct Task {
  const Layer& layer;
  const StepPlan& plan;
  const StateCall& call;
  const KernelSet& kernels;
  std::byte* states = nullptr;  // of this layer, in slot 0
  uint64_t slot_bytes = 0;
  float* shared = nullptr;       // of the workspace, for all slices (Kind::shared_floats)
  float* own = nullptr;          // for this slice alone (Kind::own_floats)
  const float* zeros = nullptr;  // [channels]
  uint64_t most_rows = 0;        // of a step

  float* slot(BlockId block) const {
    return reinterpret_cast<float*>(states + static_cast<uint64_t>(block) * slot_bytes);
  }
  const float* input(size_t i) const { return static_cast<const float*>(call.inputs[i]); }
};

// Walks the rows of a sequence over one part of its state, which begins `at` floats into a slot: it
// says where the state is before a row, and where it goes. A state that no slot keeps goes to
// `beside`.
class Walk {
 public:
  Walk(const Task& task, const Part& part, uint64_t at, float* beside)
      : task_(task), part_(part), ends_(task.plan.ends_of(part)), at_(at), beside_(beside) {
    from_ = part.from == kNoBlock ? nullptr : task.slot(part.from) + at;
  }
  const float* from() const { return from_; }  // null: zeros
  float* to() const {
    return next_ < ends_.size() ? task_.slot(ends_[next_].block) + at_ : beside_;
  }
  bool from_beside() const { return from_ == beside_; }
  bool to_beside() const { return next_ == ends_.size(); }
  // No row of this step reads what goes to `to`.
  bool at_rest() const { return at_last() && !to_beside(); }
  bool at_last() const { return done_ + 1 == part_.rows; }
  bool more() const { return done_ < part_.rows; }
  uint32_t row() const { return part_.first_row + done_; }
  void advance() {
    from_ = to();
    ++done_;
    if (next_ < ends_.size() && ends_[next_].rows == done_) ++next_;
  }

 private:
  const Task& task_;
  const Part& part_;
  std::span<const End> ends_;
  uint64_t at_;
  float* beside_;
  const float* from_ = nullptr;
  uint32_t done_ = 0;
  size_t next_ = 0;
};

}  // namespace tenon::state_cpu
