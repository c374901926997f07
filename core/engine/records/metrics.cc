#include "core/engine/records/metrics.h"

namespace tenon {

PartTimes& PartTimes::operator+=(const PartTimes& other) {
  scheduler_ns += other.scheduler_ns;
  kv_cache_ns += other.kv_cache_ns;
  drafter_ns += other.drafter_ns;
  executor_ns += other.executor_ns;
  sampler_ns += other.sampler_ns;
  engine_ns += other.engine_ns;
  return *this;
}

int64_t PartTimes::total_ns() const {
  return scheduler_ns + kv_cache_ns + drafter_ns + executor_ns + sampler_ns + engine_ns;
}

int64_t RequestRecord::time_to_first_token_ns() const {
  return token_ns.empty() ? -1 : token_ns.front() - arrival_ns;
}

double RequestRecord::time_per_output_token_ns() const {
  if (token_ns.size() < 2) return 0.0;
  return static_cast<double>(token_ns.back() - token_ns.front()) /
         static_cast<double>(token_ns.size() - 1);
}

void DraftStatistics::add(uint32_t draft_tokens, uint32_t accepted_tokens) {
  if (draft_tokens == 0) return;
  ++drafts;
  tokens += draft_tokens;
  accepted += accepted_tokens;
  if (accepted_at.size() < draft_tokens) accepted_at.resize(draft_tokens);
  for (uint32_t place = 0; place < accepted_tokens; ++place) ++accepted_at[place];
}

double DraftStatistics::acceptance() const {
  return tokens == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(tokens);
}

void EngineTotals::add(const StepRecord& step) {
  times += step.times;
  preemptions += step.preemptions;
  reused_tokens += step.reused_tokens;
  swapped_out_tokens += step.swapped_out_tokens;
  swapped_in_tokens += step.swapped_in_tokens;
  kv_moves += step.moves;
  if (step.rows == 0) return;
  ++steps;
  generated_tokens += step.tokens;
  rows_computed += step.rows;
  row_steps += step.running + step.idle_rows;
  idle_row_steps += step.idle_rows;
  kv_reserved_token_steps += step.kv_reserved_tokens;
  kv_used_token_steps += step.kv_used_tokens;
}

double EngineTotals::kv_unused_fraction() const {
  if (kv_reserved_token_steps == 0) return 0.0;
  return 1.0 -
         static_cast<double>(kv_used_token_steps) / static_cast<double>(kv_reserved_token_steps);
}

double EngineTotals::mean_kv_reserved_tokens() const {
  return steps == 0 ? 0.0 : static_cast<double>(kv_reserved_token_steps) / steps;
}

double EngineTotals::mean_kv_used_tokens() const {
  return steps == 0 ? 0.0 : static_cast<double>(kv_used_token_steps) / steps;
}

}  // namespace tenon
