// Lines that somebody types, or that a program sends: with editing and a history on a terminal,
// where the program was built with libedit, else as they come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace tenon {

enum class LineEnd : uint8_t {
  line,
  end,          // of the input
  interrupted,  // by Ctrl-C, on a terminal
};

class LineInput {
 public:
  // Editing needs a terminal on both sides; TERM=dumb, or none, does without.
  LineInput();
  ~LineInput();
  LineInput(const LineInput&) = delete;
  LineInput& operator=(const LineInput&) = delete;

  // The next line, without its end. `prompt` is shown on terminals only. Errors: failed (it cannot
  // be read), invalid_argument (a line of more than 16 MiB).
  Result<LineEnd> read(const std::string& prompt, std::string& line);

  static bool can_edit();  // this program, at all

 private:
  Result<LineEnd> read_plain(std::string& line);
  LineEnd read_edited(const std::string& prompt, std::string& line);

  bool edits_ = false;
  bool shows_prompt_ = false;
  bool at_end_ = false;
  std::string buffer_;  // read beyond the line
};

}  // namespace tenon
