// The only way in which this program loads libraries.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon {

// Loads `file` for the rest of the process, all symbols at once and private to it, and returns the
// address of `symbol`, null when it exports none. `path` is what messages call it. The
// floating-point state is what it was, whatever the library's constructors did. [control]
Result<const void*> load_shared_library(const std::string& file, const std::string& path,
                                        const char* symbol);

}  // namespace tenon
