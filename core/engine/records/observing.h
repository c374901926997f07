// Tells an observer what each step was, where one listens.
#pragma once

#include <vector>

#include "core/engine/records/step_observer.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Observing {
 public:
  explicit Observing(EngineContext& context) : context_(context) {}

  // Notes who takes part and what they hold, before samples end and give their memory back.
  void look(const Step& step);
  // Notes what came out, before ended sequences are freed.
  void note_results();
  void tell(const StepRecord& record);

 private:
  void add_share(const Share& share);
  void add(const Sequence& sequence);
  void add_blocks(const Sequence& sequence, ObservedSequence& observed);

  EngineContext& context_;
  bool looking_ = false;
  size_t told_sequences_ = 0;  // that lived when it was told of a step last
  ObservedStep observed_;
  struct Place {
    const Sequence* sequence = nullptr;
    size_t tokens = 0;  // delivered before the step
  };
  std::vector<Place> places_;  // [observed_.sequences]
};

}  // namespace tenon
