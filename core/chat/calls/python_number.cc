#include "core/chat/calls/python_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tenon::chat {
namespace {

// Of one number, as Python has it.
constexpr size_t kMostDigits = 4300;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int letter = c | 0x20;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : 99;
}

// Digits with single underscores between them, without these. Empty where they are none; an
// underscore may come first after the sign of a base.
std::string digits(std::string_view written, int base, bool after_sign) {
  std::string plain;
  bool may_join = after_sign;
  for (const char c : written) {
    const bool is_digit = digit_of(c) < base;
    if (!is_digit && (c != '_' || !may_join)) return {};
    if (is_digit) plain += c;
    may_join = is_digit;
  }
  return may_join || plain.empty() ? plain : std::string();
}

// In base 1,000,000,000, the lowest first.
std::string in_decimal(std::string_view plain, int base) {
  constexpr uint64_t kUnit = 1'000'000'000;
  std::vector<uint32_t> parts = {0};
  for (const char c : plain) {
    uint64_t carry = static_cast<uint64_t>(digit_of(c));
    for (uint32_t& part : parts) {
      carry += uint64_t{part} * static_cast<uint64_t>(base);
      part = static_cast<uint32_t>(carry % kUnit);
      carry /= kUnit;
    }
    if (carry > 0) parts.push_back(static_cast<uint32_t>(carry));
  }
  std::string decimal = std::to_string(parts.back());
  for (size_t i = parts.size() - 1; i-- > 0;) {
    const std::string part = std::to_string(parts[i]);
    decimal += std::string(9 - part.size(), '0') + part;
  }
  return decimal;
}

std::optional<std::string> whole(std::string_view written) {
  const char sign =
      written.size() > 2 && written.front() == '0' ? static_cast<char>(written[1] | 0x20) : '\0';
  const int base = sign == 'x' ? 16 : sign == 'o' ? 8 : sign == 'b' ? 2 : 10;
  const std::string plain = digits(base == 10 ? written : written.substr(2), base, base != 10);
  if (plain.empty() || plain.size() > kMostDigits * 4) return std::nullopt;
  const std::string decimal = base == 10 ? plain : in_decimal(plain, base);
  const size_t zeros = std::min(decimal.find_first_not_of('0'), decimal.size() - 1);
  // 00 is a number, 07 is none.
  if (base == 10 && zeros > 0 && decimal[zeros] != '0') return std::nullopt;
  if (decimal.size() - zeros > kMostDigits) return std::nullopt;
  return decimal.substr(zeros);
}

}  // namespace

std::optional<std::string> python_number_json(std::string_view written) {
  if (written.empty() || (digit_of(written.front()) > 9 && written.front() != '.')) {
    return std::nullopt;
  }
  const bool has_base =
      written.size() > 1 && std::string_view("xXoObB").find(written[1]) != std::string_view::npos;
  if (has_base || written.find_first_of(".eE") == std::string_view::npos) return whole(written);
  const size_t e = std::min(written.find_first_of("eE"), written.size());
  const std::string_view mantissa = written.substr(0, e);
  std::string_view exponent = e < written.size() ? written.substr(e + 1) : std::string_view("0");
  const bool is_negative = exponent.starts_with('-');
  if (is_negative || exponent.starts_with('+')) exponent.remove_prefix(1);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::string_view before = mantissa.substr(0, point);
  const std::string_view after = mantissa.substr(std::min(point + 1, mantissa.size()));
  const std::string power = digits(exponent, 10, false);
  const std::string front = digits(before, 10, false), back = digits(after, 10, false);
  const bool is_number = !power.empty() && (!before.empty() || !after.empty()) &&
                         before.empty() == front.empty() && after.empty() == back.empty();
  if (!is_number) return std::nullopt;
  const size_t zeros = front.empty() ? 0 : std::min(front.find_first_not_of('0'), front.size() - 1);
  std::string json = front.empty() ? "0" : front.substr(zeros);
  json += '.' + (back.empty() ? "0" : back);
  if (e < written.size()) json += (is_negative ? "e-" : "e") + power;
  double value = 0;
  const auto read = std::from_chars(json.data(), json.data() + json.size(), value);
  // What is too small is 0, what is too large is nothing that JSON has.
  if (read.ec == std::errc::result_out_of_range) {
    const bool is_small = is_negative || json.starts_with("0.");
    return is_small ? std::optional<std::string>("0.0") : std::nullopt;
  }
  return std::isfinite(value) ? std::optional(json) : std::nullopt;
}

}  // namespace tenon::chat
