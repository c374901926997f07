#include "core/base/number.h"

#include <algorithm>
#include <charconv>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

bool in_range(const NumberSpec& spec, double value) {
  // Written so that NaN fails.
  return (spec.above_min ? value > spec.min : value >= spec.min) &&
         (spec.below_max ? value < spec.max : value <= spec.max);
}

double as_float(double value) {
  return static_cast<double>(static_cast<float>(value));
}

// Most numbers become floats: 0.99999999999 must not turn into a 1 that is out of range.
bool in_range_as_float(NumberSpec spec, double value) {
  spec.min = as_float(spec.min);
  spec.max = as_float(spec.max);
  return in_range(spec, as_float(value));
}

bool takes(const NumberSpec& spec, const WrittenNumber& written) {
  if (std::holds_alternative<std::string>(written)) return false;
  if (!spec.whole) {
    const double value = as_real(written);
    return in_range(spec, value) && in_range_as_float(spec, value);
  }
  const auto* whole = std::get_if<int64_t>(&written);
  return whole != nullptr && *whole >= spec.least && *whole <= spec.most;
}

template <typename T>
bool parse_all(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

WrittenNumber written_number(std::string_view text) {
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  int64_t whole = 0;
  if (parse_all(digits, whole)) return whole;
  double real = 0.0;
  if (parse_all(digits, real)) return real;
  return shown_text(text);
}

std::string number_text(const WrittenNumber& written) {
  if (const auto* whole = std::get_if<int64_t>(&written)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&written)) return format_real(*real);
  return std::get<std::string>(written);
}

double shortest(float value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  double read = 0.0;
  std::from_chars(digits, end, read);
  return read;
}

std::string range_text(const NumberSpec& spec) {
  std::string text = spec.whole ? "a whole number " : "a number ";
  if (spec.whole) {
    text += "from " + std::to_string(spec.least) + " to " + std::to_string(spec.most);
  } else {
    text += (spec.above_min ? "above " : "from ") + format_real(spec.min);
    text += spec.below_max ? " and below " : spec.above_min ? " and at most " : " to ";
    text += format_real(spec.max);
  }
  if (!spec.unit.empty()) text += " " + std::string(spec.unit);
  return text + (spec.or_auto ? ", or \"auto\"" : "");
}

std::string number_fault(const NumberSpec& spec, const WrittenNumber& written) {
  if (takes(spec, written)) return "";
  return std::string(spec.name) + " is " + number_text(written) + " – it must be " +
         range_text(spec) + " – change it or leave it out";
}

double as_real(const WrittenNumber& written) {
  const auto* whole = std::get_if<int64_t>(&written);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(written);
}

}  // namespace tenon
