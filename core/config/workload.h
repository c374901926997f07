// A workload: requests to measure with, as a TOML file describes them, for any model.
//
// Format: docs/formats/workload-toml.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct WorkloadRequest {
  std::string prompt;
  uint32_t max_tokens = 0;
  uint32_t samples = 1;
  bool ignore_eos = true;             // an answer then has exactly max_tokens tokens
  int64_t arrival_ns = 0;             // after the start
  int32_t priority = 0;               // lower runs first
  std::optional<uint64_t> seed;       // absent: what the pipeline or the command line says
  std::optional<double> temperature;  // absent: likewise
};

struct Workload {
  std::string path;
  std::string title;
  std::vector<WorkloadRequest> requests;  // in the order of the file
};

// Errors name the file, the line and the key; all of them in one message.
Result<Workload> read_workload(const std::string& path);
Result<Workload> parse_workload(std::string_view text, const std::string& name);

}  // namespace tenon
