// A step over one group of states, in plain numbers: which rows start where, and where states go.
#pragma once

#include <tenon/state.h>

#include <cstdint>
#include <span>

namespace tenon::state_cpu {

// After `rows` rows of its sequence the state goes to `block`.
struct End {
  uint32_t rows = 0;
  BlockId block = kNoBlock;
};
struct Part {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  BlockId from = kNoBlock;
  uint32_t first_end = 0;
  uint32_t ends = 0;  // that the rows reach, rising
};

struct StepPlan {
  uint32_t sequences = 0;

  std::span<const Part> parts() const { return {first_part(), sequences}; }
  std::span<const End> ends_of(const Part& part) const {
    const auto* ends = reinterpret_cast<const End*>(first_part() + sequences);
    return {ends + part.first_end, part.ends};
  }
  const Part* first_part() const { return reinterpret_cast<const Part*>(this + 1); }
};

uint64_t plan_bytes(uint32_t max_rows, uint32_t max_sequences);
// Fills plan_bytes of memory.
void make_plan(const StatePlan& plan);

}  // namespace tenon::state_cpu
