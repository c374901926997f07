// How characters are written: as they are, or as they stand inside of JSON strings.
#pragma once

#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {

enum class TextForm : uint8_t {
  raw = 0,
  // The quote, the backslash and controls by their shortest escape, all others as they are.
  json_string = 1,
};

// One character of `codes`.
ExprId write_character(Expressions& expressions, const CodeSet& codes, TextForm form);
// A text in UTF-8, without quotes around it.
std::string json_escaped(std::string_view text);

}  // namespace tenon::grammar
