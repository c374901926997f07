// A world for a scheduler under test: sequences that arrive, memory that runs out, and an account
// of what was granted and broken.
#pragma once

#include <tenon/scheduler.h>

#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/worlds/random.h"

namespace tenon {

// Memory of so many tokens. What it granted and took back in one plan is on record.
class RecordingLedger final : public KvLedger {
 public:
  explicit RecordingLedger(uint64_t free_tokens) : free_(free_tokens) {}

  CachedTokens cached(SeqId seq) noexcept override { return {ready[seq], 0}; }
  uint64_t cost(SeqId seq, uint32_t tokens) noexcept override;
  GrowResult try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept override;
  HeldTokens held(SeqId seq) noexcept override;
  bool release(SeqId seq, ReleaseHow how) noexcept override;
  uint64_t free_tokens() noexcept override { return free_; }

  void begin_plan();
  uint32_t calls() const { return calls_; }
  // Of this plan.
  uint32_t granted(SeqId seq) const { return count_of(granted_, seq); }
  uint32_t reused(SeqId seq) const { return count_of(reused_, seq); }
  bool released(SeqId seq) const { return released_.contains(seq); }
  bool swapped(SeqId seq) const {
    const auto found = released_.find(seq);
    return found != released_.end() && found->second == ReleaseHow::swap;
  }
  size_t releases() const { return released_.size(); }
  // The engine's doing: what a grant leaves unused, and what an end gives back.
  void give_back(SeqId seq, uint32_t tokens);
  void end(SeqId seq);

  bool refuses = false;  // every release
  bool swaps = false;    // has a pool; what is swapped out is computed again all the same
  std::map<SeqId, uint32_t> ready;    // what the cache has of a waiting sequence
  std::map<SeqId, uint32_t> running;  // those that hold memory, and how much of it is in flight

 private:
  static uint32_t count_of(const std::map<SeqId, uint32_t>& counts, SeqId seq) {
    const auto found = counts.find(seq);
    return found == counts.end() ? 0 : found->second;
  }

  uint64_t free_;
  uint32_t calls_ = 0;
  std::map<SeqId, uint32_t> held_, granted_, reused_;
  std::map<SeqId, ReleaseHow> released_;
};

// What a plan broke, in words; empty = nothing. `whole_spans`: whether it says that it keeps
// together what must be computed together.
std::string broken_by(const SchedulerView& view, const RecordingLedger& ledger, const PlanOut& out,
                      bool whole_spans);

struct WorldSize {
  uint32_t sequences = 20;
  uint32_t most_prompt = 60;
  uint32_t most_answer = 20;
  uint64_t memory_tokens = 4096;
  uint32_t max_sequences = 6;
  uint32_t max_batch_tokens = 48;
  bool whole_spans = false;
  bool measures = false;  // steps have durations
  bool swaps = false;
  int64_t step_ns = 1'000'000;  // by which the view's clock moves on
};

// Requests that arrive while others run, until all have ended, step by step as an engine does it.
class SchedulerWorld {
 public:
  SchedulerWorld(Scheduler& scheduler, const WorldSize& size, uint64_t seed);

  // One step. False once everything has ended, or something is wrong.
  bool step();
  // What was wrong first; empty = nothing.
  const std::string& problem() const { return problem_; }
  const Transcript& transcript() const { return transcript_; }

 private:
  struct Live {
    SequenceView view;
    uint32_t answer = 0;  // tokens until it ends
    bool running = false;
    uint64_t admitted = 0;
  };
  void arrive();
  void tell(EventKind kind, const SequenceView& view);
  std::vector<SequenceView> views(bool running) const;
  void apply(const PlanOut& out);
  void take_back();
  void note(const PlanOut& out);
  // Lets time pass for a plan without grants, up to when the scheduler wishes to be asked again.
  void wait(const PlanOut& out, int64_t now_ns);
  void advance(Live& live, const Grant& grant);

  Scheduler& scheduler_;
  const WorldSize size_;
  CaseRandom random_;
  RecordingLedger ledger_;
  std::map<SeqId, Live> live_;
  SeqId next_ = 1;
  uint64_t step_ = 0, admitted_ = 0;
  uint32_t idle_steps_ = 0;
  int64_t skipped_ns_ = 0;  // that steps did not take
  int64_t waited_ns_ = 0;   // on purpose, since the last grant
  uint64_t most_steps_ = 0;
  StepCost last_;
  std::string problem_;
  Transcript transcript_;
};

}  // namespace tenon
