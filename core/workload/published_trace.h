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
#include <vector>

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

class RequestList;

// The requests of a trace that are left of it, in the order of their arrival.
class CutTrace {
 public:
  struct Record {
    double seconds = 0;
    int64_t prompt_tokens = 0, answer_tokens = 0;
    std::vector<int64_t> blocks = {};
  };
  CutTrace(std::string name, TraceCut cut) : name_(std::move(name)), cut_(cut) {}

  size_t requests() const { return records_.size(); }
  size_t empty() const { return empty_; }        // left out: without a prompt or without an answer
  size_t too_long() const { return too_long_; }  // left out: longer than TraceCut::context_tokens
  // How many lines had an earlier time than the line before, in a sentence; empty where none had.
  std::string order_note() const;
  // docs/formats/workload-toml.md
  std::string toml() const;
  // The requests of toml().
  RequestList list() const;
  // As a trace again, with all that was cut: for a file of which a workload would be too long. By
  // lines_ending(): ".csv", or ".jsonl" where prompts share blocks.
  std::string lines() const;
  std::string lines_ending() const;

 private:
  friend Result<CutTrace> cut_trace(const std::string& path, const TraceCut& cut);
  int64_t arrival_ns(const Record& record) const;

  std::string name_;
  TraceCut cut_;
  std::vector<Record> records_;
  size_t empty_ = 0, too_long_ = 0;
  size_t earlier_ = 0;  // lines whose time is before that of the line above
};
// Errors name the file and the line.
Result<CutTrace> cut_trace(const std::string& path, const TraceCut& cut);

struct TraceWorkload {
  std::string toml;  // docs/formats/workload-toml.md
  size_t requests = 0;
  size_t empty = 0;             // left out: without a prompt or without an answer
  size_t too_long = 0;          // left out: longer than TraceCut::context_tokens
  std::string order_note = {};  // CutTrace::order_note()
};
// Errors name the file and the line.
Result<TraceWorkload> read_trace(const std::string& path, const TraceCut& cut);

}  // namespace tenon
