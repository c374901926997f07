// Standard input and pipes, which have no end that anybody promised: read up to a limit.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "core/base/result.h"

namespace tenon {

constexpr size_t kMostInputBytes = size_t{64} << 20;  // as of files of text

// All of it. Errors: invalid_argument (more than `limit_bytes`), failed (it cannot be read).
Result<std::string> read_standard_input(size_t limit_bytes = kMostInputBytes);

// A text that a user names: a file, "-" for standard input, or a pipe, as a shell's <(…) is one. A
// pipe that nobody writes to is empty. Errors: those of read_text_file and read_standard_input.
Result<std::string> read_given_text(const std::string& path);

// `--input-limit`, for commands that have a use for more.
class InputLimit {
 public:
  void add_to(CLI::App& command);  // must stay where it is until the command is run
  Result<std::string> read() const;

 private:
  size_t limit_bytes_ = kMostInputBytes;
};

}  // namespace tenon
