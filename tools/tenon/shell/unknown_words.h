// What to say of a command line that the parser does not understand.
#pragma once

#include <span>
#include <string>

#include "tools/tenon/shell/command_line.h"

namespace CLI {
class ParseError;
}  // namespace CLI

namespace tenon {

// For a command or an option that does not exist, one argument too many, and a command, a value or
// an argument that is missing: which, of what, and what was probably meant. "" where the parser's
// own sentence is better. `words` are those after the program's name.
std::string explain_unknown_words(Command program, const CLI::ParseError& error,
                                  std::span<const char* const> words);

}  // namespace tenon
