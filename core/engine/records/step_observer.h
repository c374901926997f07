// What each step was, for whoever wants to show it: who computed how much, who waits, and which
// blocks of the KV cache each sequence holds. Numbers only: no tokens and no text.
#pragma once

#include <tenon/kv_cache.h>

#include <cstdint>
#include <vector>

#include "core/engine/records/metrics.h"

namespace tenon {

enum class ObservedState : uint8_t { running, waiting, ended };

// A sequence behind the step. What it has no part in is 0.
struct ObservedSequence {
  SeqId id = kNoSeq;
  RequestId request = 0;
  uint32_t sample = 0;
  ObservedState state = ObservedState::running;
  uint32_t prompt_tokens = 0;
  uint32_t known_tokens = 0;     // prompt and answer
  uint32_t computed_tokens = 0;  // of them, those whose K and V are there
  uint32_t prefill_rows = 0;     // tokens computed before an answer goes on, those anew included
  uint32_t decode_rows = 0;      // tokens of an answer
  uint32_t drafts = 0;           // proposed, and verified behind them
  uint32_t kept_drafts = 0;
  uint32_t new_tokens = 0;  // delivered
  uint32_t preemptions = 0;
  int64_t arrival_ns = 0;
  int64_t first_token_ns = -1;  // from arrival, in the step of the first token; else -1
  int64_t gap_ns = -1;          // from the latest token before, in steps with further ones
  uint32_t first_block = 0;     // of ObservedStep::blocks
  uint32_t block_count = 0;
};

struct ObservedStep {
  StepRecord record;
  KvUsage usage;              // behind it, of the ledger's group
  uint32_t block_tokens = 0;  // 0: blocks are slots of state
  // Those that computed, in batch order; others that run; those that wait, in order of arrival.
  std::vector<ObservedSequence> sequences;
  std::vector<BlockId> blocks;  // in the order of the tokens that they hold
  uint32_t left_out_sequences = 0;
  bool left_out_blocks = false;  // some sequences' are not told
};

// Both are called on the step thread and return soon.
class StepObserver {
 public:
  // Asked once a step; where it is false nothing is gathered.
  virtual bool wants_steps() noexcept = 0;
  // A step that computed something, or in which sequences came, left or were preempted.
  virtual void on_step(ObservedStep step) = 0;

 protected:
  ~StepObserver() = default;
};

}  // namespace tenon
