// Sequences that decode on and on: each computes its latest token and gets another one.
//
// A simulation has little else. Where the executor computes nothing (DecodeSteps), and scheduler
// and KV manager say that they would do the same once more (SteadyPlans, KvDecodes), a step in
// which nobody waits is taken without a plan, a batch and rows of results. Where others wait, or
// have prompts to compute, and the scheduler says that those who decode come first (DecodesFirst),
// it is asked for the rest alone, and they go on beside that. Tokens, times, records and what
// plugins know afterwards are those of the step in full.
#pragma once

#include <tenon/extensions/kv_decodes.h>

#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/planner.h"
#include "core/engine/step/step.h"
#include "core/exec/executor.h"

namespace tenon {

class SteadySteps {
 public:
  explicit SteadySteps(EngineContext& context);

  // After a step that was taken in full, before what has ended is freed. `nobody_waited` when it
  // was planned.
  void look(const Step& step, bool nobody_waited);
  // Takes the step that has begun, after one that cost `last`. False: it must be taken otherwise,
  // and nothing has changed.
  bool take(Step& step, const StepCost& last);

  // Whether this step's plan is asked for what follows those that decode, whose memory is taken
  // then. False: the step must be taken in full, and nothing has changed.
  bool begin_beside(Step& step, Planner& planner);
  uint32_t count() const { return static_cast<uint32_t>(sequences_.size()); }
  // Before the launch of the rest, which computes these as well; where there is no rest, now.
  void launch_beside(Step& step);
  void resolve(const Step& step);
  void deliver(Step& step);
  // After all of a step that was begun beside; `nobody_waited` when it was planned.
  void join(const Step& step, bool nobody_waited);

 private:
  void forget_ended();
  void look_at_all(const Step& step, bool quiet);
  bool come_first(const Sequence& a, const Sequence& b) const;
  bool are_all() const;
  bool may_begin_beside() const;
  bool grow(const Step& step);
  void fill(Step& step);
  void lay_rows();

  EngineContext& context_;
  const bool possible_;
  const bool beside_;                 // the scheduler says who comes first
  std::vector<Sequence*> sequences_;  // that decode, in the order of their grants
  std::vector<Sequence*> others_;     // that run as well; where `beside_`
  bool steady_ = false;               // the step before granted to `sequences_` alone
  std::vector<KvDecode> decodes_;     // [sequences]
  std::vector<DecodeRow> rows_;       // likewise
  std::vector<TokenId> drawn_;        // likewise
};

}  // namespace tenon
