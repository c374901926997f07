// One [[request]] table of a workload, read, and the requests that it stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/workload/draw.h"
#include "core/workload/workload.h"

namespace tenon {

struct RequestTable {
  WorkloadRequest request;
  std::optional<LengthDistribution> prompt_tokens, turn_tokens, max_tokens;
  std::string prefix;
  uint32_t prefix_tokens = 0;
  std::vector<int64_t> blocks;
  uint32_t block_tokens = 0, last_block_tokens = 0;
  uint32_t count = 1, turns = 1;
  int64_t every_ns = 0, think_ns = 0;
  std::optional<double> rate;
  double burstiness = 1;
  bool vary_seed = false;

  uint64_t requests() const { return uint64_t{count} * turns; }
};

// Writes requests out, drawing what is not said. All follow from the file's own seed.
class RequestExpansion {
 public:
  explicit RequestExpansion(uint64_t draw_seed) : seed_(draw_seed), draw_(draw_seed) {}

  // False where all so far take too much memory.
  bool expand(const RequestTable& table, std::vector<WorkloadRequest>& out);

 private:
  std::vector<DrawnTokens> shared_parts(const RequestTable& table) const;
  bool add_conversation(const RequestTable& table, WorkloadRequest first,
                        std::vector<WorkloadRequest>& out);

  uint64_t seed_;
  WorkloadDraw draw_;
  uint64_t bytes_ = 0;
};

}  // namespace tenon
