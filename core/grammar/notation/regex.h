// Regular expressions as languages: the part of ECMA 262's syntax that says which texts match, and
// not where. Refused by name: look-around, back references, \b and \B, flags, \p.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"
#include "core/grammar/notation/text_form.h"

namespace tenon::grammar {

enum class Anchoring : uint8_t {
  whole = 0,   // the pattern is the whole text; ^ and $ at its ends say nothing new
  search = 1,  // the text has the pattern somewhere, unless ^ and $ say where
};

// Errors: invalid_argument (malformed), unsupported; with the place in the pattern.
Result<ExprId> parse_regex(Expressions& expressions, std::string_view pattern, TextForm form,
                           Anchoring anchoring);

// A pattern whose characters are counted apart: the whole texts are those of `text` that have
// `least` to `most` characters. So a repetition of some thousand times needs no states of its own.
struct CountedRegex {
  ExprId text = 0;  // raw
  uint32_t least = 0, most = kUnbounded;
};
// Errors: as above.
Result<CountedRegex> parse_counted_regex(Expressions& expressions, std::string_view pattern,
                                         Anchoring anchoring);

}  // namespace tenon::grammar
