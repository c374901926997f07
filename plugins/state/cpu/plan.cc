#include "plugins/state/cpu/plan.h"

namespace tenon::state_cpu {

// A sequence reaches as many ends as it has rows, at most.
uint64_t plan_bytes(uint32_t max_rows, uint32_t max_sequences) {
  return sizeof(StepPlan) + uint64_t{max_sequences} * sizeof(Part) +
         uint64_t{max_rows} * sizeof(End);
}

void make_plan(const StatePlan& plan) {
  const BatchView& batch = *plan.batch;
  auto* header = static_cast<StepPlan*>(plan.plan);
  header->sequences = static_cast<uint32_t>(batch.sequences.size());
  auto* parts = reinterpret_cast<Part*>(header + 1);
  auto* ends = reinterpret_cast<End*>(parts + header->sequences);
  uint32_t count = 0;
  for (uint32_t i = 0; i < header->sequences; ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    Part& part = parts[i];
    part = {sequence.first_row, sequence.rows, kNoBlock, count, 0};
    if (sequence.rows == 0) continue;
    const KvTableView& table = batch.groups[plan.group].tables[i];
    part.from = table.blocks[0];
    for (size_t end = 1; end < table.ends.size(); ++end) {
      const uint32_t rows = table.ends[end] - table.ends[0];
      if (rows > sequence.rows) break;
      ends[count++] = {rows, table.blocks[end]};
      ++part.ends;
    }
  }
}

}  // namespace tenon::state_cpu
