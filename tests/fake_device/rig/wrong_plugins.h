// Plugins that work, with answers that are wrong now and then: one of a seed's choice among all
// that a method gives back. What is legal, however silly, is left alone where nobody could tell it
// from a strategy: which token a sampler draws, what a manager says that it evicted.
#pragma once

#include <tenon/drafter.h>
#include <tenon/kv_cache.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <cstdint>
#include <vector>

#include "tests/fake_device/rig/wrong_answers.h"

namespace tenon {

class WrongScheduler final : public Scheduler {
 public:
  WrongScheduler(Scheduler& real, WrongAnswers wrong) : real_(real), wrong_(wrong) {}
  Status on_event(const SequenceEvent& event) noexcept override;
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;

 private:
  void spoil(const SchedulerView& view, KvLedger& ledger, PlanOut& out);
  SeqId any_of(const SchedulerView& view);

  Scheduler& real_;
  WrongAnswers wrong_;
};

class WrongKvCache final : public KVCacheManager {
 public:
  WrongKvCache(KVCacheManager& real, WrongAnswers wrong) : real_(real), wrong_(wrong) {}
  // From here on answers are wrong.
  void begin_being_wrong() { on_ = true; }
  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override;
  Status begin(const KvSequence& sequence) noexcept override;
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted_tokens,
               KvMatch& out) noexcept override;
  Status grow(const KvRequest& request, KvGrant& out) noexcept override;
  Status trim(SeqId seq, uint32_t tokens) noexcept override;
  Status resolve(const KvOutcome& outcome) noexcept override;
  Status release(SeqId seq, ReleaseHow how) noexcept override;
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override;
  Status take_moves(KvMovesOut& out) noexcept override;
  Status step_begin(uint64_t step_id) noexcept override;
  Status step_done(uint64_t step_id) noexcept override;
  Status usage(GroupId group, KvUsage& out) const noexcept override;
  Status check() const noexcept override { return real_.check(); }

 private:
  bool now() const { return on_ && wrong_.now(); }
  void spoil_table(KvTableView& out);

  KVCacheManager& real_;
  mutable WrongAnswers wrong_;
  bool on_ = false;
  uint32_t blocks_ = 0;
  // Tables that were changed, until the step that sees them is over.
  std::vector<std::vector<BlockId>> tables_;
};

class WrongSampler final : public Sampler {
 public:
  WrongSampler(Sampler& real, WrongAnswers wrong) : real_(real), wrong_(wrong) {}
  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status sample(std::span<const SampleRow> rows, std::span<SampleResult> results) noexcept override;
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override;
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override;

 private:
  void spoil(const SampleRow& row, SampleResult& result);

  Sampler& real_;
  WrongAnswers wrong_;
  std::vector<TokenLogprob> elsewhere_ = std::vector<TokenLogprob>(4);
};

class WrongDrafter final : public Drafter {
 public:
  WrongDrafter(Drafter& real, WrongAnswers wrong) : real_(real), wrong_(wrong) {}
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

 private:
  void spoil(DraftOut& out);

  Drafter& real_;
  WrongAnswers wrong_;
  std::vector<TokenId> elsewhere_ = std::vector<TokenId>(4);
};

}  // namespace tenon
