// A run that was recorded (ReplayOptions::record), once more: by the executor "sim", with the
// recorded arrivals, times of steps and tokens. Every view that the scheduler gets and every
// decision must be the same, so that whatever differs is the simulation's, or the plugins'.
#pragma once

#include <string>

#include "core/compare/replay/replay.h"
#include "core/compare/replay/views.h"

namespace tenon::compare {

// Where the answers of a run are written whose views go to `views_path`.
std::string answers_file(const std::string& views_path);

// `pipeline` runs on "sim". `plans` are those alike, with all that the scheduler saw. Errors:
// unsupported (steps planned ahead, requests of several samples); a line that cannot be read; what
// the engine reports.
Result<ReplayedViews> follow_run(Pipeline& pipeline, const ReplayWork& work,
                                 const std::string& views_path);

}  // namespace tenon::compare
