// What to say of a command line that the parser does not understand.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace tenon {

// For a command or an option that does not exist, one argument too many, and a command, a value or
// an argument that is missing: which, of what, and what was probably meant. "" where the parser's
// own sentence is better. `words` are those after the program's name.
std::string explain_unknown_words(const CLI::App& app, const CLI::ParseError& error,
                                  std::span<const char* const> words);

}  // namespace tenon
