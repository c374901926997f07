// What `tenon compare` does once its command line is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compare/comparison.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/fail_rule.h"

namespace tenon {

struct CompareFlags {
  std::string file, base, authorities, model, workload, out, metric, budget, cache, goodput, text,
      pictures, sweep, machine;
  std::vector<std::string> arms, settings, plugin_path, fail_if, folders;
  std::optional<uint32_t> pairs, noise_pairs, restart, in_flight, max_tokens, text_tokens,
      text_window;
  std::optional<uint64_t> seed;
  std::optional<double> rate, burstiness, scale, margin, confidence, unlike;
  bool record = false;
  bool simulated = false;  // `tenon simulate`: arms run on the executor "sim"
  bool several = false, may_differ = false, count_waits = false, all = false, quick = false;
  bool json = false, csv = false, markdown = false, quiet = false;
};

// The file's comparison, or that of the command line alone, which wins over the file. Errors: what
// no comparison can be made of.
Result<compare::Comparison> comparison_of(const CompareFlags& flags, const std::string& file);
// Of --fail-if. Error: a rule that names no arm, base or metric of the comparison.
Result<std::vector<FailRule>> rules_of(const CompareFlags& flags,
                                       const compare::Comparison& comparison);

// Each gives back the exit status. `command` is the line as it was typed.
Result<int> compare_given(const CompareFlags& flags, const std::string& command);
// Every comparison of configs/comparisons, one after the other.
Result<int> compare_all(const CompareFlags& flags, const std::string& command);
// Folders that were measured before, each reported again; those of `--sweep` in one picture.
Result<int> show_folders(const CompareFlags& flags);
// A run that `tenon compare --record` kept, followed by the executor "sim" on the machine that the
// flags name: whether every decision is the same. 1 where one is not.
Result<int> follow_recorded(const CompareFlags& flags, uint32_t arm);

}  // namespace tenon
