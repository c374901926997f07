// A workload: requests to measure with, as a TOML file describes them, for any model.
//
// Format: docs/formats/workload-toml.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/answer_settings.h"

namespace tenon {

// Token ids that no text stands for: the same (stream, tokens) gives the same ids everywhere.
struct DrawnTokens {
  uint64_t stream = 0;
  uint32_t tokens = 0;
};

struct WorkloadRequest {
  std::string prompt;              // text; or, where it is drawn as tokens, empty
  std::vector<DrawnTokens> drawn;  // the parts of a drawn prompt: shared ones first
  uint32_t max_tokens = 0;
  bool ignore_eos = true;  // an answer then has exactly max_tokens tokens
  int64_t arrival_ns = 0;  // after the start
  int32_t priority = 0;    // lower runs first
  uint32_t tenant = 0;
  int64_t deadline_ns = 0;  // wanted done so long after its arrival; 0 = whenever
  AnswerSettings answer;    // everything else that it says about its answer
};

// What all requests of a workload may take together: prompts and settings.
inline constexpr uint64_t kMostWorkloadBytes = 1 << 30;

// Of a workload file: parsed TOML takes far more memory than its text.
inline constexpr size_t kMostWorkloadText = size_t{16} << 20;

struct Workload {
  std::string path;
  std::string title;
  std::vector<WorkloadRequest> requests;  // in the order of the file
};

// The numbers that a workload has in addition to those of parameters(), by key.
std::span<const NumberSpec> workload_numbers();

// A published trace (published_trace.h) is read as the workload that all of it makes. Errors name
// the file, the line and the key; all of them in one message.
Result<Workload> read_workload(const std::string& path);
// Of a file that is known to be a trace.
Result<Workload> read_trace_workload(const std::string& path);
Result<Workload> parse_workload(std::string_view text, const std::string& name);
// The same requests, which are not made yet (request_list.h): a million may be longer together than
// kMostWorkloadBytes, and a published trace longer than a workload file.
class RequestList;
Result<RequestList> read_request_list(const std::string& path);
Result<RequestList> parse_request_list(std::string_view text, const std::string& name);

// The token ids of a drawn prompt, each at least 0 and less than `vocabulary` (> 0).
std::vector<int32_t> drawn_prompt(std::span<const DrawnTokens> parts, uint32_t vocabulary);
uint64_t tokens_of(std::span<const DrawnTokens> parts);
// The same as a text: as many words as there would be ids. Equal first parts begin equal texts.
std::string drawn_text(std::span<const DrawnTokens> parts);

}  // namespace tenon
