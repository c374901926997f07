// `--input-limit`, for commands that have a use for more than the usual limit of standard input.
#pragma once

#include <string>

#include "core/base/files/given_text.h"
#include "tools/tenon/shell/command_line.h"

namespace tenon {

class InputLimit {
 public:
  void add_to(Command command);  // must stay where it is until the command is run
  // Standard input, up to the limit. Errors: those of read_standard_input.
  Result<std::string> read() const;

 private:
  size_t limit_bytes_ = kMostInputBytes;
};

}  // namespace tenon
