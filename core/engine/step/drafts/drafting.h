// All that the engine has to do with a drafter: offers, drafts, and what became of them.
#pragma once

#include <vector>

#include "core/base/machine/guarded_pages.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Drafting {
 public:
  explicit Drafting(EngineContext& context) : context_(context) {}

  // Asks how many tokens could be proposed for each sequence that has begun to answer.
  void offer();
  // Fills the granted draft slots, right behind the known tokens. Fewer than granted is fine.
  void draft(Step& step);

  // Shows the hidden states of what a step computed and kept, where they were asked for.
  void observe(const Step& step);
  void tell_cost(const StepCost& cost, const StepRecord& record);

 private:
  void ask_for(const std::vector<Sequence*>& sequences);
  void make_room(Step& step);
  void take_drafts(Step& step, Share& share, const DraftOut& out, uint32_t most);
  void note_cuts();
  bool wrote_behind_room() const;
  void show(const Share& share);
  void make_views(const Step& step);
  void fault(std::string_view did, const Status& status);

  EngineContext& context_;
  std::vector<DraftRequest> requests_;
  std::vector<Sequence*> asked_;  // [requests] of an offer
  std::vector<uint32_t> offered_;
  std::vector<Share*> drafted_;  // [requests] of a draft
  std::vector<DraftOut> drafts_;
  GuardedVector<int32_t> parents_;  // [draft slots] where drafts may form trees
  GuardedVector<float> probs_;      // [draft slots, vocabulary] where verification needs them

  // What is shown of one sequence: rows of `positions_` and `hidden_rows_`.
  struct Shown {
    SeqId seq = kNoSeq;
    size_t first = 0;
    size_t rows = 0;
  };
  std::vector<Shown> shown_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> hidden_rows_;  // of the output
  std::vector<float> gathered_;        // where they do not lie side by side
  std::vector<TensorView> tensors_;    // [shown, layers]
  std::vector<HiddenView> views_;
};

}  // namespace tenon
