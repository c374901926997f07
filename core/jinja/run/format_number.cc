#include <cmath>
#include <cstdio>

#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/format.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr int kMostPrecision = 300;

std::string in_base(Integer value, unsigned base, bool upper) {
  if (value == 0) return "0";
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  auto rest =
      value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string out;
  for (; rest != 0; rest /= base) out.insert(out.begin(), digits[static_cast<size_t>(rest % base)]);
  return out;
}

std::string whole_digits(Integer value, const FormatSpec& spec) {
  switch (spec.type) {
    case 'x':
    case 'X':
      return (spec.alternate ? (spec.type == 'x' ? "0x" : "0X") : "") +
             in_base(value, 16, spec.type == 'X');
    case 'o':
      return (spec.alternate ? "0o" : "") + in_base(value, 8, false);
    case 'b':
      return (spec.alternate ? "0b" : "") + in_base(value, 2, false);
    default:
      return in_base(value, 10, false);
  }
}

std::string real_digits(double value, const FormatSpec& spec) {
  if (spec.type == '\0' && spec.precision < 0) return real_text(std::fabs(value));
  const bool is_percent = spec.type == '%';
  char type = is_percent ? 'f' : spec.type == '\0' ? 'g' : spec.type;
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const char format[] = {'%', '.', '*', type, '\0'};
  char buffer[1024];
  const double shown = std::fabs(is_percent ? value * 100 : value);
  std::snprintf(buffer, sizeof buffer, format, precision, shown);
  std::string out = buffer;
  // Without a type, a whole number keeps its point.
  if (spec.type == '\0' && out.find_first_of(".en") == std::string::npos) out += ".0";
  return is_percent ? out + "%" : out;
}

void group_thousands(std::string& digits) {
  size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
}

}  // namespace

Result<std::string> format_number(const Value& value, const FormatSpec& spec) {
  if (!value.is_number()) return type_error("written as a number", value);
  static constexpr std::string_view kRealTypes = "fFeEgG%";
  if (spec.precision > kMostPrecision) {
    return invalid_argument("a number is asked for with " + std::to_string(spec.precision) +
                            " digits – at most " + std::to_string(kMostPrecision) + " are written");
  }
  const bool as_real =
      value.is_real() || (spec.type != '\0' && kRealTypes.find(spec.type) != std::string::npos);
  if (value.is_real() && spec.type != '\0' && kRealTypes.find(spec.type) == std::string::npos) {
    return invalid_argument("a value of type 'float' cannot be written as '" +
                            std::string(1, spec.type) + "'");
  }
  std::string digits =
      as_real ? real_digits(value.real(), spec) : whole_digits(value.whole(), spec);
  if (spec.groups) group_thousands(digits);
  const bool is_negative = as_real ? std::signbit(value.real()) : value.whole() < 0;
  std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  // Zeros stand between the sign and the digits.
  if (spec.align == '=' && spec.fill == "0" && sign.size() + digits.size() < spec.width &&
      spec.width < 4096) {
    digits.insert(0, spec.width - sign.size() - digits.size(), '0');
  }
  return sign + digits;
}

void add_aligned(const MarkedText& text, const FormatSpec& spec, char default_align,
                 TextBuilder& out) {
  const size_t length = count_characters(text.bytes());
  const size_t padding = spec.width > length ? spec.width - length : 0;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const size_t left = align == '<' ? 0 : align == '^' ? padding / 2 : padding;
  out.add_repeated(spec.fill, left);
  out.add(text);
  out.add_repeated(spec.fill, padding - left);
}

}  // namespace tenon::chat
