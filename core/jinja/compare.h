// Truth, equality and order of values, as Python has them.
#pragma once

#include "core/base/result.h"
#include "core/jinja/value.h"

namespace tenon::chat {

bool is_true(const Value& value);
// Never an error: values of different types differ. Once the budget is used up, everything does;
// only keys of dictionaries, which hold nothing, are compared without one.
bool are_equal(const Value& a, const Value& b, Budget* budget);
// Whether a < b. Error: invalid_argument for types that have no order.
Result<bool> is_less(const Value& a, const Value& b, Budget& budget);
// `item in container`.
Result<bool> contains(const Value& container, const Value& item, Budget& budget);
// Of a dictionary: texts, numbers and none.
bool can_be_key(const Value& value);

// "a value of type 'dict' cannot be …"
Status type_error(std::string_view doing, const Value& value);
// An undefined value was used: says what did not exist.
Status undefined_error(const Value& value);

}  // namespace tenon::chat
