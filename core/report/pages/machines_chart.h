// What every machine of a cluster did over time.
#pragma once

#include <vector>

#include "core/report/pages/picture.h"
#include "core/report/statistics/measured.h"

namespace tenon {

// A row for each machine: the darker, the more sequences run, of the most that any machine had; a
// line below where requests wait.
Picture machines_chart(const std::vector<std::vector<TimelinePoint>>& machines, size_t arm);

}  // namespace tenon
