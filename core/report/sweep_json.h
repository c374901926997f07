// Sweeps as JSON: what `tenon load --sweep --json` prints, and sweep.json in the folder of
// `tenon compare --sweep`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/report/sweep.h"

namespace tenon {

// "name", "sweep" (rate or concurrency), "knee" and "saturated" (loads, or null) and "points".
// Bounds of intervals that are unknown are null.
nlohmann::ordered_json sweep_json(const Sweep& sweep);

// The sweeps of a file that either command wrote: one, or those of "curves". A folder stands for
// the sweep.json in it. Errors: those of files; it holds no sweep, or no point.
Result<std::vector<Sweep>> read_sweeps(const std::string& path);

}  // namespace tenon
