// Drafters for what no plugin of ours does yet: trees, and hidden states of the target.
#pragma once

#include <tenon/drafter.h>
#include <tenon/extensions/prompt_states.h>

#include <map>
#include <string>
#include <vector>

#include "tests/fake_device/rig/toy_model.h"

namespace tenon {

// Proposes a tree: after what is known, and after each node, the model's second choice and then
// its first, breadth first. So the path that a greedy target keeps never is the leading slots.
class TreeDrafter final : public Drafter {
 public:
  TreeDrafter(ToyModel model, uint32_t most) : model_(std::move(model)), most_(most) {}
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t accepted) noexcept override {
    return accepted_ += accepted, Status();
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

  uint64_t accepted() const { return accepted_; }

 private:
  ToyModel model_;
  uint32_t most_;
  uint64_t accepted_ = 0;
};

// Looks at the hidden states of every token, holds them against the model's, and complains of one
// that is wrong, missing or there twice. Drafts what the model would say, wrong now and then;
// as a tree where that was agreed upon.
class HiddenDrafter final : public Drafter {
 public:
  HiddenDrafter(ToyModel model, bool drawn_only)
      : model_(std::move(model)), drawn_only_(drawn_only) {}
  // From now on it sees no prompts of sequences with an odd number, and of their forks. Valid as
  // long as the drafter.
  const PromptStates* see_every_other_prompt();
  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override;
  Status begin(SeqId seq, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView> hidden) noexcept override;

  const std::string& complaint() const { return complaint_; }
  uint64_t compared() const { return compared_; }  // rows
  uint64_t unseen() const { return unseen_; }      // rows of prompts that were left out
  uint64_t accepted() const { return accepted_; }

 private:
  struct Row {
    uint32_t position = 0;
    std::vector<float> states;  // [layers, kHidden]
  };
  void take(const HiddenView& view);
  void compare(SeqId seq, std::span<const TokenId> history);
  void complain(SeqId seq, const std::string& text);
  bool sees_prompt(SeqId seq) const;

  ToyModel model_;
  bool drawn_only_;
  bool every_other_ = false;
  PromptStates prompt_states_;
  std::map<SeqId, bool> odd_;        // or a fork of one that is
  std::map<SeqId, uint32_t> asked_;  // how often it was whether a prompt is to be seen
  std::vector<LayerId> layers_;
  std::map<SeqId, std::vector<Row>> rows_;  // of each sequence, not compared yet
  std::map<SeqId, uint32_t> next_;          // the position that is to be seen next
  std::string complaint_;
  uint64_t compared_ = 0;
  uint64_t unseen_ = 0;
  uint64_t accepted_ = 0;
};

}  // namespace tenon
