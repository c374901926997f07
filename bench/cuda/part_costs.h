// Kernels that no step of step_cases.h has: what one call of each moves and computes, by the
// formulas of kernel_cost.h, at the shapes of models that need them. Nothing measures them yet.
#pragma once

#include <string>
#include <vector>

#include "bench/cuda/kernel_cost.h"

namespace tenon::cuda::bench {

struct PartCost {
  std::string name;  // one word
  Cost cost;
};
// One row, after 1,023 others where it attends: of Llama 3.1 8B with a cache of 8 or 4 bits, with
// slopes, and with embeddings of integers; of Mixtral 8x7B; of DeepSeek-V3.
std::vector<PartCost> part_costs();

}  // namespace tenon::cuda::bench
