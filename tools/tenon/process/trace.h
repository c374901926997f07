// Published traces of requests that somebody's users sent, as workloads of ours: lengths, arrivals
// and, where the trace has them, what prompts share. No trace has texts; tokens are drawn.
//
//   Azure 2023 and 2024 (csv)  TIMESTAMP, ContextTokens, GeneratedTokens
//   BurstGPT (csv)             Timestamp in seconds, Request tokens, Response tokens
//   Mooncake (jsonl)           timestamp in ms, input_length, output_length, hash_ids of 512 tokens
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/config/comparison.h"

namespace tenon {

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
