// What of a step the executor has a part in: block moves, the batch, launch and collect.
#pragma once

#include <string>
#include <vector>

#include "core/engine/answers/row_draws.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Forward {
 public:
  explicit Forward(EngineContext& context) : context_(context), row_draws_(context) {}

  // Block copies and swaps, before anything of the step that needs them is computed. They are
  // carried out in the order in which they were emitted, so what a step that never ran has left
  // behind does no harm.
  void move(Step& step) {
    if (!step.empty()) take_moves(step);
  }
  // Of a step that computes something besides its shares.
  void take_moves(Step& step);
  // Lays the shares side by side.
  void assemble(Step& step);
  // Shows the executor a step that will be launched behind the one that is in flight.
  void stage(const Step& step);
  // Begins the step; a fault shows when it is collected.
  void launch(Step& step);
  // Waits for its logits. A step that fails takes the requests along that have a share in it.
  void collect(Step& step);
  // The same where somebody else tells the KV manager (KvDecodes::resolve).
  void take(Step& step);
  // Tells the KV manager that the step was collected, or will never be launched.
  void done(const Step& step);

 private:
  Status apply(std::span<KvMove> moves);
  Status take_output(Step& step);
  void fail(Step& step, const std::vector<Sequence*>& sequences, const std::string& message);

  EngineContext& context_;
  RowDraws row_draws_;
  std::vector<KvMove> moves_;
};

}  // namespace tenon
