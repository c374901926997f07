// `tenon compare --sweep`: the same comparison at several loads.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/compare/comparison.h"
#include "tools/tenon/compare/runs.h"

namespace tenon {

// Runs one comparison into a folder; gives back its exit status.
using CompareOne =
    std::function<Result<int>(const compare::Comparison& comparison, const std::string& folder)>;

// Whether the report of one load is printed when that load ends. JSON and CSV of a sweep are one
// document, which is printed at the end.
bool shows_each_load(const CompareFlags& flags);

// Each load of `flags.sweep` gets an equal part of the budget and a folder of its own below
// `folder`, "rate-4", which is reported by itself. Then each arm's curve follows, and `folder` gets
// sweep.json, which is rewritten after each load, and the pictures of all. Gives back the worst
// status. Error: a sweep that is none, of work that has a loop of its own.
Result<int> compare_at_loads(const CompareFlags& flags, const compare::Comparison& comparison,
                             const std::string& folder, const CompareOne& compare_one);

// Whether `folder` is what compare_at_loads() left.
bool is_sweep_folder(const std::string& folder);
// The curves of `flags.folders`, all such folders, again. Several are named after their folders and
// share their pictures, which `flags.out` gets; the pictures of one are written into itself.
// Gives back the exit status. Errors: those of reading; several, of which one sweeps rates and one
// concurrencies; pictures of several without a folder to put them into.
Result<int> show_sweeps(const CompareFlags& flags);

}  // namespace tenon
