// Prompts and what to ask for each: from a file of prompts or from a workload.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/grammar.h"
#include "core/workload/workload.h"

namespace tenon {

// Absent members leave it to whoever runs the prompt.
struct Prompt {
  std::string text;
  std::optional<std::vector<TokenId>> tokens;  // instead of text
  std::vector<DrawnTokens> drawn;              // instead of both, where there are any
  AnswerSettings answer;
  std::optional<grammar::GrammarSpec> grammar;
  int32_t priority = 0;
  uint32_t tenant = 0;
  int64_t deadline_ns = 0;  // wanted done so long after its arrival; 0 = whenever
  int64_t arrival_ns = 0;   // after the start
};

Prompt prompt_of(const WorkloadRequest& request);

// A file of prompts: one a line; or, when its name ends in ".jsonl", one JSON object a line:
//   {"prompt": "text" | [ids], "max_tokens": n, "temperature": x, …}
// with the names of docs/formats/generation.md and, of docs/structured-output.md, "json_schema"
// (the schema, or its text), "json_object", "regex" and "grammar"; no others.
// Empty lines are skipped. Every error names the line.
Result<std::vector<Prompt>> read_prompt_file(const std::string& path);
// The requests of a workload file, or of a published trace (core/workload/workload.h).
Result<std::vector<Prompt>> read_workload_prompts(const std::string& path);
// Either, by the file's name and contents.
Result<std::vector<Prompt>> read_work(const std::string& path);

}  // namespace tenon
