// Texts that a user names: files, pipes and standard input. The latter two promise no end, so they
// are read up to a limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

inline constexpr size_t kMostInputBytes = size_t{64} << 20;  // as of files of text

// All of standard input. Errors: invalid_argument (more than `limit_bytes`), failed (it cannot be
// read).
Result<std::string> read_standard_input(size_t limit_bytes = kMostInputBytes);

// A file, "-" for standard input, or a pipe, as a shell's <(…) is one. A pipe that nobody writes to
// is empty. A byte order mark, which says that a text is UTF-8, is no part of it. Errors: those of
// read_text_file and read_standard_input; invalid_argument (a mark of UTF-16 or UTF-32).
Result<std::string> read_given_text(const std::string& path);
// `text` without a byte order mark of UTF-8 at its beginning.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace tenon
