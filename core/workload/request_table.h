// One [[request]] table of a workload, read, and the requests that it stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/workload/draw.h"
#include "core/workload/workload.h"

namespace tenon {

class RequestList;

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

// Draws what tables do not say of their requests. All follow from the file's own seed.
class RequestExpansion {
 public:
  explicit RequestExpansion(uint64_t draw_seed) : draw_(draw_seed) {}
  void expand(const RequestTable& table, RequestList& out);

 private:
  WorkloadDraw draw_;
};

// The bytes that a request takes once it is made, in addition to its own size.
uint64_t bytes_of(const WorkloadRequest& request);

}  // namespace tenon
