// The requests of `tenon load`: from files into questions, and from answers into rows.
#pragma once

#include <string>
#include <vector>

#include "core/client/load.h"
#include "core/report/load.h"
#include "tools/tenon/shell/prompts.h"

namespace tenon {

struct LoadWork {
  std::string path;         // a workload (.toml), a published trace, or prompts
  bool is_prompts = false;  // as .jsonl or a line each, whatever else the file could be
  std::string model;
  bool chat = false;
  bool stream = true, usage = true;
  uint32_t max_tokens = 64;  // of an answer where the file does not say
  uint32_t vocabulary = 0;   // of prompts that are drawn; 0 = not known
  double rate = 0;           // Poisson arrivals a second in place of the file's; 0 = the file's
  uint64_t seed = 1;         // of these arrivals
};

// Every request of the file, once. Errors: what the file has that no server can be asked for.
Result<std::vector<client::LoadRequest>> load_requests(const LoadWork& work);

// Of a load that started at `start_ns`.
LoadSample load_sample(const client::LoadRow& row, int64_t start_ns);
// A line of JSON, with the answer's text where it is asked for.
std::string load_row_json(const LoadSample& sample, const client::Answer* with_text);

}  // namespace tenon
