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

// Each load of `flags.sweep` gets an equal part of the budget and a folder of its own below
// `folder`, "rate-4", which is reported by itself. Then each arm's curve follows, and `folder` gets
// the pictures of all. Gives back the worst status. Error: a sweep that is none, of work that has a
// loop of its own.
Result<int> compare_at_loads(const CompareFlags& flags, const compare::Comparison& comparison,
                             const std::string& folder, const CompareOne& compare_one);

}  // namespace tenon
