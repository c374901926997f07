// The command line that starts this program several times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// `words` is what followed the program's name, with --launch somewhere. The line runs the rest of
// it as so many ranks, with --launched in its place. Error: not_found, where Open MPI's mpirun is
// not installed, with the package that brings it.
Result<std::vector<std::string>> launch_line(uint32_t ranks, const std::vector<std::string>& words);
// What stands before a program's own command line, to start it so often. Error: not_found.
Result<std::vector<std::string>> launcher(uint32_t ranks);

}  // namespace tenon
