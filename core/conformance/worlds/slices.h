// A kernel's slices as workers run them: all at once.
#pragma once

#include <cstdint>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// run(slice) -> Status of every slice, each on a thread of its own. All wait until the last thread
// has started: starting one takes longer than a small slice does, so they would run one by one.
// Error: the first slice's that has one.
template <typename Run>
Status run_at_once(uint32_t slices, Run run) {
  std::vector<Status> failures(slices);
  {
    std::latch start(slices);
    std::vector<std::jthread> threads;
    for (uint32_t slice = 0; slice < slices; ++slice) {
      threads.emplace_back([&, slice] {
        start.arrive_and_wait();
        failures[slice] = run(slice);
      });
    }
  }
  for (Status& failure : failures) TENON_RETURN_IF_ERROR(std::move(failure));
  return {};
}

}  // namespace tenon
