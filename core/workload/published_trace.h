// Published traces of requests that somebody's users sent, as workloads of ours: lengths, arrivals
// and, where the trace has them, what prompts share. No trace has texts; tokens are drawn.
//
//   Azure 2023 and 2024 (csv)  TIMESTAMP, ContextTokens, GeneratedTokens
//   BurstGPT (csv)             Timestamp in seconds, Request tokens, Response tokens
//   Mooncake (jsonl)           timestamp in ms, input_length, output_length, hash_ids of 512 tokens
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace tenon {

// Which part of a published trace is replayed, and how.
struct TraceCut {
  uint32_t limit = 0;           // requests at most; 0 = all
  uint32_t skip = 0;            // of the first
  double scale = 1;             // arrivals so many times as fast as they were
  double length_scale = 1;      // prompts and answers so many times as long
  uint32_t context_tokens = 0;  // longer requests are left out; 0 = none
};

// By name and contents: ".csv", or ".jsonl" whose first line has an "input_length".
bool is_trace(const std::string& path);

struct TraceWorkload {
  std::string toml;  // docs/formats/workload-toml.md
  size_t requests = 0;
  size_t empty = 0;     // left out: without a prompt or without an answer
  size_t too_long = 0;  // left out: longer than TraceCut::context_tokens
};
// Errors name the file and the line.
Result<TraceWorkload> read_trace(const std::string& path, const TraceCut& cut);

}  // namespace tenon
