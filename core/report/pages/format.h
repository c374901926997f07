// Text by a pattern of printf, for figures in reports.
#pragma once

#include <string>

namespace tenon {

// At most 511 bytes; what is longer is cut.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace tenon
