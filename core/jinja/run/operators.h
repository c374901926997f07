// What operators do, as in Python.
#pragma once

#include "core/base/result.h"
#include "core/jinja/budget.h"
#include "core/jinja/syntax/syntax.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// Errors (invalid_argument): types that do not go together; a division by zero; a whole number
// beyond 128 bits.
Result<Value> apply_operator(Operator operation, const Value& left, const Value& right,
                             Budget& budget);
Result<Value> negated(const Value& value);
// For comparisons: one of equal to not_in.
Result<bool> compare_values(Operator operation, const Value& left, const Value& right,
                            Budget& budget);
// `value[begin:end:step]`; none where a bound is left out.
Result<Value> slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
                       Budget& budget);

}  // namespace tenon::chat
