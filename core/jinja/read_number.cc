#include "core/jinja/read_number.h"

#include <charconv>
#include <limits>
#include <string>

#include "core/jinja/marked_text.h"

namespace tenon::chat {
namespace {

std::string_view trimmed(std::string_view text) {
  const ByteRange range = stripped(text, nullptr, true, true);
  return text.substr(range.begin, range.end - range.begin);
}

// Without underscores; null where one stands elsewhere than between digits.
std::optional<std::string> without_underscores(std::string_view text, int base) {
  std::string plain;
  bool after_digit = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_joint = text[at] == '_';
    if (is_joint && !(after_digit && at + 1 < text.size() && is_digit_of(text[at + 1], base))) {
      return std::nullopt;
    }
    if (!is_joint) plain += text[at];
    after_digit = !is_joint && is_digit_of(text[at], base);
  }
  return plain;
}

}  // namespace

int base_of_sign(char letter) {
  const int small = letter | 0x20;
  return small == 'x' ? 16 : small == 'o' ? 8 : small == 'b' ? 2 : 10;
}

bool is_digit_of(char c, int base) {
  const int letter = c | 0x20;
  const int value = c >= '0' && c <= '9'             ? c - '0'
                    : letter >= 'a' && letter <= 'z' ? letter - 'a' + 10
                                                     : 99;
  return value < base;
}

Status beyond_integers() {
  return invalid_argument("a whole number grows beyond 128 bits");
}

Result<std::optional<Integer>> read_whole(std::string_view text, int base) {
  constexpr std::optional<Integer> kNone;
  text = trimmed(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const int signed_base = text.size() > 1 && text[0] == '0' ? base_of_sign(text[1]) : 10;
  if (signed_base == base && base != 10) {
    text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
  }
  const std::optional<std::string> digits = without_underscores(text, base);
  if (!digits || digits->empty()) return kNone;
  Integer value = 0;
  bool overflows = false;
  for (const char c : *digits) {
    if (!is_digit_of(c, base)) return kNone;
    const int letter = c | 0x20;
    const int digit = c <= '9' ? c - '0' : letter - 'a' + 10;
    overflows |= __builtin_mul_overflow(value, Integer{base}, &value) ||
                 __builtin_sub_overflow(value, Integer{digit}, &value);
  }
  // Counted downwards, since there is one negative number more.
  overflows |= !is_negative && __builtin_sub_overflow(Integer{0}, value, &value);
  if (overflows) return beyond_integers();
  return std::optional(value);
}

std::optional<double> read_real(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::optional<std::string> plain = without_underscores(text, 10);
  if (!plain) return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(plain->data(), plain->data() + plain->size(), value);
  if (read.ptr != plain->data() + plain->size() || plain->empty()) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    const bool is_small = plain->find("e-") != plain->npos || plain->find("E-") != plain->npos;
    const double size = is_small ? 0.0 : std::numeric_limits<double>::infinity();
    return plain->starts_with('-') ? -size : size;
  }
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace tenon::chat
