#include "core/grammar/notation/text_reader.h"

#include "core/base/utf8.h"
#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

uint32_t TextReader::take_code() {
  const Utf8Character character = first_character(text.substr(at));
  at += character.bytes == 0 ? 1 : character.bytes;
  return character.code;
}

std::optional<uint32_t> TextReader::take_hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = peek(i);
    uint32_t digit = 0;
    if (is_digit(c)) {
      digit = static_cast<uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  at += digits;
  return value;
}

std::optional<uint32_t> TextReader::take_count() {
  if (!is_digit(peek())) return std::nullopt;
  uint64_t value = 0;
  for (; is_digit(peek()); ++at) {
    value = value * 10 + static_cast<uint64_t>(peek() - '0');
    if (value > kMostCount) value = kMostCount;
  }
  return static_cast<uint32_t>(value);
}

std::optional<TextReader::Counts> TextReader::take_counts() {
  const size_t begin = at;
  Counts counts;
  const std::optional<uint32_t> least = take_count();
  const bool has_comma = take(",");
  const std::optional<uint32_t> most = has_comma ? take_count() : least;
  if (!take("}") || !least) {
    at = begin;
    return std::nullopt;
  }
  counts.least = *least;
  counts.most = most ? *most : kUnbounded;
  return counts;
}

}  // namespace tenon::grammar
