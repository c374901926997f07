// What stands for one character in a regular expression: classes and escapes.
#pragma once

#include "core/grammar/automaton/code_set.h"
#include "core/grammar/notation/text_reader.h"

namespace tenon::grammar {

// Errors of patterns: "pattern, at byte 7: …".
Status malformed(size_t at, std::string_view what);
Status refused(size_t at, std::string_view what);

// A class with its brackets.
Result<CodeSet> take_class(TextReader& reader);
// An escape with its backslash. Inside of a class \b is the backspace.
Result<CodeSet> take_escape(TextReader& reader, bool in_class);
// All but line ends.
CodeSet regex_dot();

}  // namespace tenon::grammar
