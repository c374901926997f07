// The processor cores that this process may use.
#pragma once

#include <vector>

namespace tenon {

// One logical processor of each core in the affinity mask, rising; cut to what a control group's
// processor quota allows. Never empty.
std::vector<int> usable_cores();

}  // namespace tenon
