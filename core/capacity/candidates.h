// What could serve a model: so many machines of one kind for each replica, weights and K and V in
// some format, and strategies. And whether that fits into memory, before anything is simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/sim/machine.h"

namespace tenon::capacity {

struct Candidate {
  sim::Machine machine;
  uint32_t ranks = 1;        // machines that compute together: one replica
  std::string weights = {};  // their format: "bf16", "q8_0"
  std::string dtype = {};    // of K and V
  std::string scheduler = {}, kv_cache = {};
  uint32_t batch_tokens = 0;  // limits.max_batch_tokens

  // "h100", "4 joined h100"
  std::string replica() const;
  // "chunked, paged, 512 tokens a step"
  std::string strategy() const;
  // Both, with formats.
  std::string name() const;
  // A replica's price for an hour; 0: nobody said.
  double price() const { return machine.price.hour * ranks; }
};

// Every value of each is tried with every value of the others; none is empty.
struct SearchSpace {
  std::vector<sim::Machine> machines;
  std::vector<uint32_t> ranks = {1, 2, 4, 8};
  std::vector<std::string> weights = {"bf16"};
  std::vector<std::string> dtypes = {"bf16"};
  std::vector<std::string> schedulers = {"chunked"};
  std::vector<std::string> kv_caches = {"paged"};
  std::vector<uint32_t> batch_tokens = {512, 2048};
};
// In the order of the space. More ranks than a machine's link joins are left out.
std::vector<Candidate> candidates_of(const SearchSpace& space);

// What one machine of a replica holds.
struct MemoryFit {
  uint64_t weight_bytes = 0;    // its part of them
  uint64_t kv_bytes = 0;        // that are left for K and V
  uint64_t sequence_bytes = 0;  // its part of K and V of one sequence of full length
};
// `share` of its memory is used (kernels, buffers and fragments take the rest). Error:
// out_of_memory, with all numbers: the weights, or one sequence next to them, take more.
Result<MemoryFit> fit_memory(const Candidate& candidate, double share, uint64_t weight_bytes,
                             uint64_t sequence_bytes, uint32_t context_tokens);

}  // namespace tenon::capacity
