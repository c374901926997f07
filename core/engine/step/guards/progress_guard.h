// Ends what goes round in circles. A step gets on when a token is delivered, a sample ends, or a
// sequence has more tokens computed than ever before; computing again what was lost is no progress.
// Since every sequence ends somewhere, nothing runs for ever beside this.
//
// Where several take memory from each other in circles, one of them runs alone (alone.h). What does
// not get on alone either fails.
//
// Empty steps are not its business (planner.h, stall_steps).
#pragma once

#include <cstdint>
#include <string>

#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class ProgressGuard {
 public:
  explicit ProgressGuard(EngineContext& context) : context_(context) {}

  // Behind every step, before what has ended is freed.
  void watch(const Step& step);

 private:
  bool got_on(const Step& step);
  // Whether those that live have lost their memory to each other again and again.
  bool goes_round() const;
  // How long nobody may get on: everything that lives could have to be computed once more, token by
  // token.
  uint64_t patience() const;
  std::string verdict() const;
  std::string memory_left() const;
  std::string description(const Sequence& sequence) const;

  EngineContext& context_;
  uint64_t samples_ended_ = 0;
  uint64_t futile_steps_ = 0;  // in a row
  uint64_t preemptions_ = 0;   // in them
};

}  // namespace tenon
