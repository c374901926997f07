// JSON numbers between bounds, and multiples of a number, as languages of their digits.
#pragma once

#include <optional>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"
#include "core/grammar/schema/decimal.h"

namespace tenon::grammar {

struct Bound {
  Decimal value;
  bool exclusive = false;
};
struct NumberLimits {
  bool only_integers = false;
  std::optional<Bound> low, high;
  std::vector<Decimal> multiples_of;

  bool is_free() const { return !low && !high && multiples_of.empty(); }
};

// Numbers are written with a point, or without; only those without limits may have an exponent too,
// of two digits at most.
// Error: unsupported (a number to be a multiple of that has too many digits; too many states).
Result<ExprId> number_language(Expressions& expressions, const NumberLimits& limits);
bool is_within(const Decimal& value, const NumberLimits& limits);

}  // namespace tenon::grammar
