// Drafter: proposes tokens that the target model may accept, so that one step yields several.
//
// Order in a step: `offer` (cheap: how many could be proposed) → the scheduler grants slots →
// `draft` fills them → the target computes them → the sampler verifies → `accept`.
//
// What a drafter proposes follows from the histories it is given; after any sequence of accepts
// that part of its state equals that of a fresh drafter shown the same history. How many tokens it
// proposes may also follow from what it learned: how many were accepted, and what steps cost.
//
// Drafts never change what a request says where the sampler verifies exactly; where it verifies by
// rejection (fact sampler.verify), they keep its distribution.
//
// Threads: every method is [step].
#pragma once

#include <tenon/sampler.h>
#include <tenon/scheduler.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

struct DraftRequest {
  SeqId seq = kNoSeq;
  std::span<const TokenId> history;  // every known token
  uint32_t max_tokens = 0;           // offer: upper bound; draft: slots that were granted
  // The target will draw the token behind `history` with this key, and the d-th one behind that
  // with position + d. A drafter that draws with the same keys agrees with it more often.
  RandomKey key;
};

// `tokens` has room for the request's max_tokens; fewer, or none, is always legal. It lies right
// behind the request's history in memory, so that history and drafts can be read as one.
struct DraftOut {
  std::span<TokenId> tokens;
  uint32_t count = 0;
  // [max_tokens, vocabulary] where the sampler verifies by rejection, else null. Row d takes the
  // distribution that token d was drawn from. A drafter that has none leaves has_probs as it is:
  // its drafts are verified exactly, which for a draft that was certain comes to the same.
  float* probs = nullptr;
  bool has_probs = false;
};

// What a step cost, measured by the engine, since plugins read no clocks.
struct DraftStepCost {
  StepCost step;
  uint32_t draft_rows = 0;  // of the step's rows
  int64_t drafter_ns = 0;   // of the step's duration, inside the drafter
};

// Hidden states of the target after a step, for drafters with the fact draft.needs = hidden.
struct HiddenView {
  SeqId seq = kNoSeq;
  TensorView rows;  // [tokens, hidden]
};

class Drafter {
 public:
  virtual Status begin(SeqId seq, SeqId parent) noexcept = 0;
  virtual void end(SeqId seq) noexcept = 0;
  // offered[i] <= requests[i].max_tokens.
  virtual Status offer(std::span<const DraftRequest> requests,
                       std::span<uint32_t> offered) noexcept = 0;
  virtual Status draft(std::span<const DraftRequest> requests,
                       std::span<DraftOut> drafts) noexcept = 0;
  // Of `drafted` tokens, `accepted` were kept; `history` is what is known now.
  virtual Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                        uint32_t accepted) noexcept = 0;
  // After each step that computed something, drafts or not.
  virtual void measured(const DraftStepCost& cost) noexcept = 0;
  virtual Status observe(std::span<const HiddenView> hidden) noexcept = 0;

 protected:
  ~Drafter() = default;
};

}  // namespace tenon
