// A hash over sizes and member offsets of every struct that crosses the boundary, computed in each
// module's own compilation. It differs when compiler flags change a layout that the text of the
// headers does not show.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/drafter.h>
#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/kv_cache.h>
#include <tenon/linear.h>
#include <tenon/model.h>
#include <tenon/model_runner.h>
#include <tenon/options.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>
#include <tenon/types.h>

#include <cstddef>
#include <cstdint>

namespace tenon {

constexpr uint64_t layout_hash() noexcept {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a, 64 bits
  const auto add = [&hash](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ ((value >> (8 * byte)) & 0xff)) * 1099511628211ull;
    }
  };
#define TENON_LAYOUT(type, last_member) \
  add(sizeof(type)), add(alignof(type)), add(__builtin_offsetof(type, last_member))
  TENON_LAYOUT(StatusRecord, release);
  TENON_LAYOUT(TensorView, stride);
  TENON_LAYOUT(OptionValue, text);
  TENON_LAYOUT(OptionSpec, store);
  TENON_LAYOUT(Fact, words);
  TENON_LAYOUT(ResolvedFact, number);
  TENON_LAYOUT(HostFacts, cuda_devices);
  TENON_LAYOUT(HostServices, extension);
  TENON_LAYOUT(KvGroup, bytes_per_sequence);
  TENON_LAYOUT(LayerShape, shares_kv_with);
  TENON_LAYOUT(ModelShape, layer);
  TENON_LAYOUT(KvGroupGeometry, swap_blocks);
  TENON_LAYOUT(KvGeometry, groups);
  TENON_LAYOUT(SequenceView, arrival_ns);
  TENON_LAYOUT(StepCost, duration_ns);
  TENON_LAYOUT(SchedulerView, running);
  TENON_LAYOUT(SequenceEvent, accepted_drafts);
  TENON_LAYOUT(PlanOut, idle_rows);
  TENON_LAYOUT(KvSequence, parent_tokens);
  TENON_LAYOUT(KvMatch, tokens_exclusive);
  TENON_LAYOUT(KvGrant, restored);
  TENON_LAYOUT(KvMove, tokens);
  TENON_LAYOUT(KvUsage, swapped_tokens);
  TENON_LAYOUT(BatchSequence, tables);
  TENON_LAYOUT(BatchView, queue);
  TENON_LAYOUT(KvStorage, layers);
  TENON_LAYOUT(AttentionCall, out);
  TENON_LAYOUT(WeightView, parts);
  TENON_LAYOUT(LinearJob, epilogue);
  TENON_LAYOUT(SamplingParams, logprobs);
  TENON_LAYOUT(SampleRow, score);
  TENON_LAYOUT(VerifyRows, draft_probs);
  TENON_LAYOUT(SampleResult, top_count);
  TENON_LAYOUT(VerifyResult, count);
  TENON_LAYOUT(DraftRequest, key);
  TENON_LAYOUT(DraftOut, has_probs);
  TENON_LAYOUT(DraftStepCost, drafter_ns);
  TENON_LAYOUT(RunnerRow, history);
  TENON_LAYOUT(RunnerDraw, probs);
#undef TENON_LAYOUT
  add(sizeof(long)), add(sizeof(void*));
  return hash;
}

}  // namespace tenon
