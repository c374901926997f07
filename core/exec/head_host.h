// What executors offer that run heads (core/model/heads) next to a target: found by a cast.
#pragma once

#include "core/model/heads/head.h"

namespace tenon {

class HeadHost {
 public:
  // Before Executor::load, whose setup has the head's model. The head lives as long as the
  // executor. Its rows have BatchView::inputs: the target's states, [rows, features], or the head's
  // own, [rows, hidden].
  virtual void take_head(const Head& head) = 0;

 protected:
  ~HeadHost() = default;
};

}  // namespace tenon
