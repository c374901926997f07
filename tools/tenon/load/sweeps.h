// Sweeps of `tenon load` as JSON files, and in one picture.
#pragma once

#include <string>
#include <vector>

#include "core/report/load.h"
#include "core/report/sweep.h"

namespace tenon {

SweepPoint sweep_point(double load, const LoadSummary& summary);

std::string sweep_json(const Sweep& sweep, const LoadRun& last);
// What sweep_json wrote into a file. Error: it is none, or not whole.
Result<Sweep> read_sweep(const std::string& path);

// Writes "FOLDER/sweep-ttft.svg" and the two others. Errors: those of files.
Status write_sweep_charts(const std::vector<Sweep>& sweeps, const std::string& folder,
                          const std::string& caption);

}  // namespace tenon
