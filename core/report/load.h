// What a load on a server came to (`tenon load`): figures over its requests, with as much certainty
// as so many requests give.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/report/statistics/interval.h"

namespace tenon {

// One request. Times in milliseconds, since the load began or since the request was due.
struct LoadSample {
  size_t index = 0;                  // in the workload
  double due_ms = 0;                 // when it was to be sent
  double late_ms = 0;                // so much later it was
  double ttft_ms = -1;               // from when it was due to its first token; -1 = not known
  double latency_ms = 0;             // to its end
  std::vector<double> gaps_ms = {};  // between one token and the next, of all its samples
  double tpot_ms = -1;               // from the first token to the last, a token; -1 = not known
  uint32_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;
  std::string counted_by = {};  // who counted the tokens: "usage", …
  std::string trouble = {};     // a word for what went wrong; empty = nothing
  std::string message = {};     // in words
  unsigned status = 0;          // of HTTP
  std::string finish = {};
  std::string answer = {};  // hash of its text

  bool ok() const { return trouble.empty(); }
};

struct LoadRun {
  std::string server = {}, model = {};
  std::string work = {};  // "32 requests, closed loop, 8 in flight"
  bool open_loop = false;
  double seconds = 0;  // from the start to the last answer
  size_t unsent = 0;
  std::string ended_by = {};   // a signal's name; empty = all was sent and answered
  double processor_share = 0;  // of one core that the generator itself used
  double processor_wait = 0;   // seconds that it waited for one
  std::vector<LoadSample> samples = {};
};

// A figure over the requests that were answered. Quantiles have intervals of 95 % over requests,
// as draws from this very load: another run may differ by more.
struct LoadFigure {
  std::string name = {};  // "ttft"
  std::string unit = {};  // "ms"
  size_t count = 0;
  double mean = 0, most = 0;
  Interval p50, p90, p99;
  bool has_intervals = true;  // gaps of one request depend on each other: theirs have none
};

// Errors of one kind and message.
struct LoadTrouble {
  std::string kind = {};  // "refused", …
  std::string message = {};
  size_t count = 0;
};

struct LoadSummary {
  size_t answered = 0, failed = 0, unanswered = 0;            // unanswered: ended by whoever asked
  uint64_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;  // of what was answered
  double tokens_per_second = 0, requests_per_second = 0;
  std::vector<LoadFigure> figures = {};           // those with a value at least
  std::vector<LoadTrouble> troubles = {};         // the most frequent first
  std::map<std::string, size_t> counted_by = {};  // requests
  bool queue_grows = false;  // an open loop whose later requests waited longer: saturated
  double late_share = 0;     // of the requests, sent more than kLateMs after they were due
  std::vector<std::string> notes = {};  // what to know before believing it
};
inline constexpr double kLateMs = 10;

LoadSummary summary_of(const LoadRun& run);
// For people. A quantile that so few requests say nothing about is a bound, or a dash.
std::string load_text(const LoadRun& run, const LoadSummary& summary);
// A line a figure, led by the names of columns; what is not known is empty.
std::string load_csv(const LoadSummary& summary);

}  // namespace tenon
