// What to run: prompts from the command line, standard input, or a file.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/workload.h"
#include "core/grammar/grammar.h"

namespace tenon {

// Absent members take what the command line says.
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

// A file of prompts: one a line; or, when its name ends in ".jsonl", one JSON object a line:
//   {"prompt": "text" | [ids], "max_tokens": n, "temperature": x, …}
// with the names of docs/formats/generation.md and, of docs/structured-output.md, "json_schema",
// "json_object", "regex" and "grammar"; no others.
// Empty lines are skipped. Every error names the line.
Result<std::vector<Prompt>> read_prompt_file(const std::string& path);
// The requests of a workload file (core/config/workload.h).
Result<std::vector<Prompt>> read_workload_prompts(const std::string& path);
// Standard input as one prompt; the line end that shells and editors put after a text is not part
// of it.
Result<Prompt> read_prompt_stdin();
// What a command was given: one prompt as an argument ("-": standard input), a file of them, or
// nothing, which is standard input too.
Result<std::vector<Prompt>> gather_prompts(const std::optional<std::string>& prompt,
                                           const std::string& file);
// Token ids separated by commas or white space; there may be none. Errors: invalid_argument, for an
// entry that is no id and for an empty one ("1,,2").
Result<std::vector<TokenId>> parse_token_list(std::string_view text);

}  // namespace tenon
