// Threads that start, or say what keeps them from it.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace tenon {

// A thread that does `work`. Throws std::system_error where the system starts no further one, as
// in a container with few processes, with a text that a user can act on. Whoever has started
// others already, and made them wait for this one, lets them end.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            "no further thread can be started – raise the limit of processes "
                            "(ulimit -u, or pids.max of a container)");
  }
}

}  // namespace tenon
