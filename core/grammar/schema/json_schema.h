// JSON Schema (drafts 7 to 2020-12) into a language of JSON texts that satisfy it.
//
// Members come in the order of `properties`, then required ones that are not named there, then
// others. docs/structured-output.md has the keywords that are supported; others are refused by
// name, with their place in the schema.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"
#include "core/grammar/schema/schema_words.h"

namespace tenon::grammar {

// Errors: invalid_argument (no JSON, no schema, nothing satisfies it), unsupported. What was passed
// over is noted.
Result<ExprId> parse_json_schema(Expressions& expressions, std::string_view text,
                                 SchemaNotes& notes);
ExprId any_json_object(Expressions& expressions);

}  // namespace tenon::grammar
