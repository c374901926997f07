// The account of a run: JSON for programs (docs/formats/run-json.md), a line for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/pipeline/pipeline.h"
#include "tools/tenon/run/output.h"

namespace tenon {

struct RunFigures {
  double seconds = 0;             // wall time of generation
  uint64_t peak_used_tokens = 0;  // KV slots that held something, at most
  EngineTotals totals;
  uint64_t second_rows = 0;  // rows that the second model computed
  std::string ended_by;      // a signal that ended the run early: "SIGINT"
};

std::string run_json(const Pipeline& pipeline, const RunOutput& output, const RunFigures& figures);
// "61 tokens · first after 3.1 ms · 0.42 ms a token · 2310 tokens/s · KV 0.5 % of 12 MiB"
std::string run_summary(const Pipeline& pipeline, const RunOutput& output,
                        const RunFigures& figures);
// Which plugins had a process of their own, and what became of those: a line each, or none where
// nobody asked for that (engine.guard).
std::vector<std::string> guard_summary(const Pipeline& pipeline);

}  // namespace tenon
