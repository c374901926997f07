// What a killed program leaves of a Unix socket: a path that nobody can listen at.
#pragma once

#include <string>

namespace tenon {

// Removes the socket at `path` if nobody listens to it, and nothing else.
void remove_left_socket(const std::string& path);

}  // namespace tenon
