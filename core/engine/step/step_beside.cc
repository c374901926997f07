#include "core/engine/engine.h"

namespace tenon {

// A step of a simulation in which those that decode repeat the step before, beside whoever the
// scheduler has to be asked about.
Status Engine::step_beside(Step& step) {
  planner_.plan_rest(step, steady_steps_.count());
  forward_.take_moves(step);
  forward_.assemble(step);
  steady_steps_.launch_beside(step);
  forward_.launch(step);
  forward_.take(step);
  results_.sample(step);
  steady_steps_.resolve(step);
  results_.resolve(step);
  steady_steps_.deliver(step);
  results_.deliver(step);
  steady_steps_.join(step, planner_.nobody_waited());
  return record(step);
}

}  // namespace tenon
