// A drafter whose answers are checked. A draft is only a proposal: what cannot be one is left out
// and counted, and costs speed, never a request.
#pragma once

#include <tenon/drafter.h>
#include <tenon/extensions/prompt_states.h>

#include <string>
#include <vector>

#include "core/contract/contract.h"
#include "core/contract/lent_rows.h"

namespace tenon {

class CheckedDrafter final : public Drafter {
 public:
  // `vocabulary` of the target.
  CheckedDrafter(Drafter& plugin, const std::string& name, uint32_t vocabulary,
                 CallChecks checks = CallChecks::usual);

  // Refuses layers that do not exist or do not rise.
  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override;
  Status begin(SeqId seq, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost& cost) noexcept override;
  Status observe(std::span<const HiddenView> hidden) noexcept override;
  // The plugin's, which it offers as an extension.
  bool wants_prompt(const PromptStates& offered, SeqId seq) {
    CheckedCall call(prompt_, checks_);
    return offered.wanted(offered.self, seq);
  }

  // Answers that were cut: drafts and offers of more tokens than there was room for, tokens that
  // are none, trees that are none, probabilities that are none. And what was wrong with the first.
  uint64_t cut() const { return cut_; }
  const std::string& first_cut() const { return first_cut_; }

 private:
  void note(const std::string& what);
  void show(std::span<const DraftRequest> requests);
  void cut_draft(const DraftRequest& request, const DraftOut& given, DraftOut& out);
  uint32_t sound(const DraftRequest& request, const DraftOut& out);

  Drafter& plugin_;
  const CallChecks checks_;
  const uint32_t vocabulary_;
  const CallName bind_, begin_, end_, offer_, draft_, accept_, measured_, observe_, prompt_;
  std::vector<DraftOut> given_;
  GuardedRoom<LayerId> layers_;
  GuardedRoom<uint32_t> offered_;
  ShownCopy shown_;
  LentRows lent_;
  uint64_t cut_ = 0;
  std::string first_cut_;
};

}  // namespace tenon
