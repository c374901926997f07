// Filters that make numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/jinja/compare.h"
#include "core/jinja/read_number.h"
#include "core/jinja/run/interpreter.h"
#include "core/jinja/run/operators.h"

namespace tenon::chat {
namespace {

Result<std::optional<Integer>> truncated(double value) {
  if (!std::isfinite(value)) return std::optional<Integer>();
  if (std::fabs(value) >= 0x1p127) return beyond_integers();
  return std::optional(static_cast<Integer>(value));
}

Result<Value> to_whole(Interpreter&, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("int", arguments, {"default", "base"}));
  TENON_ASSIGN_OR_RETURN(const Integer base, whole_argument("int", bound[1], 10));
  const Value otherwise = bound[0] == nullptr ? Value(Integer{0}) : *bound[0];
  std::optional<Integer> whole;
  if (value.is_whole()) {
    whole = value.whole();
  } else if (value.is_real()) {
    TENON_ASSIGN_OR_RETURN(whole, truncated(value.real()));
  } else if (value.is_text() && base >= 2 && base <= 36) {
    TENON_ASSIGN_OR_RETURN(whole, read_whole(value.bytes(), static_cast<int>(base)));
    const std::optional<double> real = whole ? std::nullopt : read_real(value.bytes());
    if (real) {
      TENON_ASSIGN_OR_RETURN(whole, truncated(*real));
    }
  } else if (value.is_undefined()) {
    return undefined_error(value);
  }
  return whole ? Value(*whole) : otherwise;
}

Result<Value> to_real(Interpreter&, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("float", arguments, {"default"}));
  if (value.is_number()) return Value(value.real());
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_text()) {
    if (const auto real = read_real(value.bytes())) return Value(*real);
  }
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

Result<Value> absolute(Interpreter&, const Value& value, const Arguments&) {
  if (value.is_real()) return Value(std::fabs(value.real()));
  if (!value.is_whole()) return type_error("a number", value);
  return value.whole() < 0 ? negated(value) : Result<Value>(Value(value.whole()));
}

// To the nearest number with so many decimals, exactly: what is printed is what counts.
Result<Value> rounded(double value, Integer precision) {
  if (precision >= 0) {
    if (precision > 300 || !std::isfinite(value)) return Value(value);
    char buffer[700];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    return Value(std::strtod(buffer, nullptr));
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value(std::nearbyint(value / unit) * unit);
}

// To tens, hundreds, …: whole numbers stay whole, and what is in the middle goes to the even one.
Result<Value> rounded_whole(const Value& value, Integer precision) {
  constexpr Integer kMostPlaces = 37;  // 10^38 is the largest power of ten of 127 bits
  if (precision >= 0) return Value(value.whole());
  if (-precision > kMostPlaces) return Value(Integer{0});
  Integer unit = 1;
  for (Integer i = 0; i < -precision; ++i) unit *= 10;
  Integer units = value.whole() / unit;
  const Integer rest = value.whole() % unit, size = rest < 0 ? -rest : rest;
  if (size > unit - size || (size == unit - size && units % 2 != 0)) units += rest < 0 ? -1 : 1;
  Integer result = 0;
  if (__builtin_mul_overflow(units, unit, &result)) return beyond_integers();
  return Value(result);
}

Result<Value> round(Interpreter&, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("round", arguments, {"precision", "method"}));
  TENON_ASSIGN_OR_RETURN(const Integer precision, whole_argument("round", bound[0], 0));
  TENON_ASSIGN_OR_RETURN(const MarkedText* method, text_argument("round", bound[1]));
  if (!value.is_number()) return type_error("rounded", value);
  if (precision < -300 || precision > 300) {
    return invalid_argument("'round' takes a precision from -300 to 300");
  }
  const std::string_view way = method == nullptr ? "common" : method->bytes();
  if (way == "common") {
    return value.is_whole() ? rounded_whole(value, precision) : rounded(value.real(), precision);
  }
  if (way != "ceil" && way != "floor") {
    return invalid_argument("'round' takes the methods 'common', 'ceil' and 'floor'");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * scale;
  return Value((way == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

}  // namespace

std::span<const Filter> number_filters() {
  static constexpr Filter kFilters[] = {
      {"int", to_whole}, {"float", to_real}, {"abs", absolute}, {"round", round}};
  return kFilters;
}

}  // namespace tenon::chat
