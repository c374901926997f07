// A kernel's slices as workers run them: all at once.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/start_thread.h"

namespace tenon {

// run(slice) -> Status of every slice, each on a thread of its own (run_together). Errors: the
// first slice's that has one; failed if the system starts no further thread.
template <typename Run>
Status run_at_once(uint32_t slices, Run run) {
  std::vector<Status> failures(slices);
  try {
    run_together(slices, [&](uint32_t slice) { failures[slice] = run(slice); });
  } catch (const std::system_error& error) {
    return failed("cannot start a thread for each of " + std::to_string(slices) +
                  " slices: " + error.what());
  }
  for (Status& failure : failures) TENON_RETURN_IF_ERROR(std::move(failure));
  return {};
}

}  // namespace tenon
