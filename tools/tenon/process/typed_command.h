#pragma once

#include <string>

namespace tenon {

// The command line of this process, as a shell would take it again.
std::string typed_command();

}  // namespace tenon
