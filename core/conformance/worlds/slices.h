// A kernel's slices as workers run them: all at once.
#pragma once

#include <cstdint>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// run(slice) -> Status of every slice, each on a thread of its own. All wait until the last thread
// has started: starting one takes longer than a small slice does, so they would run one by one.
// Errors: the first slice's that has one; failed if the system starts no further thread.
template <typename Run>
Status run_at_once(uint32_t slices, Run run) {
  std::vector<Status> failures(slices);
  std::string refusal;
  {
    std::latch start(slices);
    std::vector<std::jthread> threads;
    threads.reserve(slices);
    try {
      while (threads.size() < slices) {
        threads.emplace_back([&, slice = static_cast<uint32_t>(threads.size())] {
          start.arrive_and_wait();
          failures[slice] = run(slice);
        });
      }
    } catch (const std::system_error& error) {
      refusal = error.what();
      start.count_down(static_cast<ptrdiff_t>(slices - threads.size()));  // nobody waits for them
    }
  }
  if (!refusal.empty()) {
    return failed("cannot start a thread for each of " + std::to_string(slices) +
                  " slices: " + refusal);
  }
  for (Status& failure : failures) TENON_RETURN_IF_ERROR(std::move(failure));
  return {};
}

}  // namespace tenon
