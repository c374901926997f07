// Drafter: proposes tokens that the target model may accept, so that one step yields several.
//
// Order in a step: `offer` (cheap: how many could be proposed) → the scheduler grants slots →
// `draft` fills them → the target computes them → the sampler verifies → `accept`.
//
// Which tokens a drafter proposes follows from the histories it is given alone: after any sequence
// of accepts it proposes what a fresh drafter that is shown the same history would. How many it
// proposes may also follow from experience: how many were accepted, and what steps cost.
//
// If the sampler verifies exactly, drafts never change a token; if it verifies by rejection (fact
// sampler.verify), they keep the distribution.
//
// Drafts may form a tree (fact draft.shape = tree): the target computes all branches in one step
// and the sampler accepts one path.
//
// Threads: `bind` is [control], every other method is [step].
#pragma once

#include <tenon/model.h>
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
  // The target will draw the token after `history` with this key, and the d-th one after that with
  // position + d. A drafter that draws with the same keys agrees with it more often.
  RandomKey key;
};

// `tokens` has room for the request's max_tokens; fewer, or none, is always legal. It lies directly
// after the request's history in memory, so that history and drafts can be read as one.
struct DraftOut {
  std::span<TokenId> tokens;
  uint32_t count = 0;
  // Room for as many. For a tree: the draft, an earlier one, that each follows; -1 = the history.
  // Siblings are different tokens. Left as it is: each follows the one before it. Empty = no trees.
  std::span<int32_t> parents;
  bool is_tree = false;
  // [max_tokens, vocabulary] if the sampler verifies by rejection, else null. Row d takes what
  // draft d was drawn from; in a tree (sampler.trees = rejection), without earlier siblings. A
  // drafter that leaves has_probs as it is has its drafts verified exactly, as certain ones.
  float* probs = nullptr;
  bool has_probs = false;
};

// The cost of a step, measured by the engine, since plugins read no clocks.
struct DraftStepCost {
  StepCost step;
  uint32_t draft_rows = 0;  // of the step's rows
  int64_t drafter_ns = 0;   // of the step's duration, inside the drafter
};

// The layers of the target after which `observe` sees states, rising; layer_count = the final norm.
struct HiddenLayersOut {
  std::span<LayerId> layers;  // room for layer_count + 1
  uint32_t count = 0;
  bool drawn_only = false;  // only at tokens after which the target draws, not along prompts
};

// Hidden states of the target at the tokens of one sequence that a step computed and kept, those of
// prompts included; for drafters with the fact draft.needs = hidden.
struct HiddenView {
  SeqId seq = kNoSeq;
  std::span<const uint32_t> positions;  // [rows], rising
  std::span<const LayerId> layers;      // as asked for
  std::span<const TensorView> states;   // [layers] f32 [rows, hidden], on the host
};

class Drafter {
 public:
  // Once, before anything else. `wanted` is empty at first: no hidden states.
  virtual Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept = 0;
  virtual Status begin(SeqId seq, SeqId parent) noexcept = 0;
  virtual Status end(SeqId seq) noexcept = 0;
  // offered[i] <= requests[i].max_tokens.
  virtual Status offer(std::span<const DraftRequest> requests,
                       std::span<uint32_t> offered) noexcept = 0;
  virtual Status draft(std::span<const DraftRequest> requests,
                       std::span<DraftOut> drafts) noexcept = 0;
  // `accepted` of `drafted` tokens were kept (a path of a tree); `history` has all known tokens.
  virtual Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                        uint32_t accepted) noexcept = 0;
  // After each step that computed something, drafts or not.
  virtual Status measured(const DraftStepCost& cost) noexcept = 0;
  // After each step, before `accept` of it, where hidden states were asked for.
  virtual Status observe(std::span<const HiddenView> hidden) noexcept = 0;

 protected:
  ~Drafter() = default;
};

}  // namespace tenon
