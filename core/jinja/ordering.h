// What filters that order and select have in common.
#pragma once

#include "core/base/result.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {

// An item's value at "a.b" or at an index, as filters name it.
// `otherwise`, if any, stands in for what is not there.
Result<Value> value_at(Interpreter& run, const Value& item, const Value& attribute,
                       const Value* otherwise = nullptr);
// What values are ordered by: themselves, or what they have at `attribute` (null or none: none);
// texts in lower case unless `keeps_case`.
Result<Values> sort_keys(Interpreter& run, const Values& values, const Value* attribute,
                         bool keeps_case);
// Stable. Error: invalid_argument where two keys have no order.
Status sort_by_keys(Interpreter& run, Values& values, const Values& keys, bool backward);

}  // namespace tenon::chat
