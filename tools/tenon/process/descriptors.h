// How many files and connections this process may have open.
#pragma once

namespace tenon {

// As many as the system lets it: every request under way has a connection.
void allow_descriptors();

}  // namespace tenon
