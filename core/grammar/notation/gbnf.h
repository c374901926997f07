// GBNF, the grammar notation of llama.cpp: rules `name ::= …` of literals, character classes,
// groups, alternatives and repetitions. The rule `root` is the whole text.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {

// Error: invalid_argument (malformed, a rule that is not there), with line and column.
Result<ExprId> parse_gbnf(Expressions& expressions, std::string_view text);

}  // namespace tenon::grammar
