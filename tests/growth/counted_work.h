// How much work a piece of code does, counted and not timed: the basic blocks that it runs, and
// what the C library moves, compares or searches for it. The same on every machine and under any
// load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tenon::growth {

// So far, of this program. Only code that was compiled with -fsanitize-coverage=trace-pc counts.
uint64_t work();

// Of one run.
template <typename Run>
uint64_t work_of(const Run& run) {
  const uint64_t before = work();
  run();
  return work() - before;
}

// What reading an input of some size takes; the input is made before anything is counted.
using Reading = std::function<void(const std::string& input)>;
using Maker = std::function<std::string(size_t size)>;

// Empty where twice the input takes about twice the work: from `size` to twice and four times it.
// Work that grows with the square doubles its growth each time. Else what was counted.
std::string growth_fault(size_t size, const Maker& make, const Reading& read);

}  // namespace tenon::growth
