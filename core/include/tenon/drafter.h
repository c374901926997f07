// Drafter: proposes tokens that the target model may accept, so that one step yields several.
//
// Order in a step: `offer` (cheap: how many could be proposed) → the scheduler grants slots →
// `draft` fills them → the target computes them → the sampler verifies → `accept`.
//
// A drafter decides from the histories it is given; after any sequence of accepts its state equals
// that of a fresh drafter shown the same history.
//
// Threads: every method is [step].
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

struct DraftRequest {
  SeqId seq = kNoSeq;
  std::span<const TokenId> history;  // every known token
  uint32_t max_tokens = 0;           // offer: upper bound; draft: slots that were granted
};

// `tokens` has room for the request's max_tokens; fewer, or none, is always legal.
struct DraftOut {
  std::span<TokenId> tokens;
  uint32_t count = 0;
  float* probs = nullptr;  // [max_tokens, vocabulary] when the sampler verifies by rejection
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
  virtual Status observe(std::span<const HiddenView> hidden) noexcept = 0;

 protected:
  ~Drafter() = default;
};

}  // namespace tenon
