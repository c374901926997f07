// A machine that counts what launches do, and formulas that are held against it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cuda/kernel_cost.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {

using bench::Cost;

inline void print_cost(const Cost& cost, std::ostream& out) {
  out << "reads " << cost.read_bytes << ", writes " << cost.written_bytes << ", asks for "
      << cost.issued_bytes << ", operations " << cost.operations;
}

// A machine that records; what its launches did.
class Counted : public EmulatedDevice {
 public:
  Counted() { machine().record_launches(); }
  Cost of(size_t launch) {
    const Counts& counts = machine().records().at(launch).counts;
    return {counts.touched_read_bytes, counts.touched_written_bytes,
            counts.read_bytes + counts.written_bytes, counts.bf16_operations};
  }
  float* floats(uint64_t count) { return upload_variable(std::vector<float>(count, 0.5f), "x"); }
  void* values(Input type, uint64_t count) {
    if (type == Input::f32) return floats(count);
    return upload_variable(std::vector<BFloat16>(count, to_bfloat16(0.5f)), "x");
  }
};

inline void expect_cost(const Cost& counted, const Cost& formula) {
  if (counted == formula) return;
  std::ostringstream both;
  print_cost(counted, both << "counted ");
  print_cost(formula, both << "\nformula ");
  ADD_FAILURE() << both.str();
}

inline constexpr Input kTypes[] = {Input::f32, Input::bf16};
inline constexpr CacheType kCacheTypes[] = {CacheType::f32, CacheType::bf16, CacheType::i8,
                                            CacheType::i4};

}  // namespace tenon::cuda::test
