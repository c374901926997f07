// Steps that repeat the one before: each running sequence computes its latest token and gets
// another one, and nobody waits.
//
// A simulation has little else. Where the executor computes nothing (DecodeSteps), and scheduler
// and KV manager say that they would do the same once more (SteadyPlans, KvDecodes), such a step is
// taken without a plan, a batch and rows of results. Tokens, times, records and what plugins know
// afterwards are those of the step in full.
#pragma once

#include <tenon/extensions/kv_decodes.h>

#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"
#include "core/exec/executor.h"

namespace tenon {

class SteadySteps {
 public:
  explicit SteadySteps(EngineContext& context);

  // After a step that was taken in full, before what has ended is freed. `nobody_waited` when it
  // was planned.
  void look(const Step& step, bool nobody_waited);
  // Takes the step that has begun, after one that cost `last`. False: it must be taken in full, and
  // nothing has changed.
  bool take(Step& step, const StepCost& last);

 private:
  bool are_all() const;
  bool grow(const Step& step);
  void fill(StepRecord& record);
  void draw(StepRecord& record);
  bool resolve(const Step& step);
  void deliver(Step& step);

  EngineContext& context_;
  const bool possible_;
  std::vector<Sequence*> sequences_;  // of such a step, in its order; empty: there is none
  std::vector<KvDecode> decodes_;     // [sequences]
  std::vector<DecodeRow> rows_;       // likewise
  std::vector<TokenId> drawn_;        // likewise
};

}  // namespace tenon
