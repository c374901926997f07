// Sweeps of `tenon load`: points, JSON and pictures.
#pragma once

#include <string>
#include <vector>

#include "core/report/load.h"
#include "core/report/sweep.h"

namespace tenon {

SweepPoint sweep_point(double load, const LoadSummary& summary);

// With the server and the model it was measured on.
std::string measured_sweep_json(const Sweep& sweep, const LoadRun& last);

// Writes "FOLDER/sweep-ttft.svg" and the two others. Errors: those of files.
Status write_sweep_charts(const std::vector<Sweep>& sweeps, const std::string& folder,
                          const std::string& caption);

}  // namespace tenon
