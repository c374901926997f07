// Texts from what has no size beforehand: standard input and pipes. Read up to a limit.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/result.h"

namespace tenon {

// All that can be read from the descriptor `fd`, which messages call `what`. Errors:
// invalid_argument (more than `limit_bytes`), failed (it cannot be read).
Result<std::string> read_to_end(int fd, const std::string& what, size_t limit_bytes);

// A text file, or a pipe or character device read to its end. A pipe that nobody writes to is
// empty: nothing waits for a writer. Errors: those of read_text_file and of read_to_end.
Result<std::string> read_file_or_pipe(const std::string& path, size_t limit_bytes);

}  // namespace tenon
