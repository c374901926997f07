// Reads a text from its front, character by character, for the parsers of patterns and GBNF.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::grammar {

struct TextReader {
  std::string_view text;
  size_t at = 0;

  bool done() const { return at >= text.size(); }
  // The byte `ahead` of here; 0 after the end.
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool take(std::string_view expected) {
    if (text.substr(at, expected.size()) != expected) return false;
    at += expected.size();
    return true;
  }
  // The text is UTF-8.
  uint32_t take_code();
  // Exactly so many hexadecimal digits.
  std::optional<uint32_t> take_hex(size_t digits);
  // Decimal digits; nothing where there are none. Errors are numbers beyond kMostCount.
  std::optional<uint32_t> take_count();
  // "{2}", "{2,}", "{2,5}" before us, after the brace. Null where it is none.
  struct Counts {
    uint32_t least = 0, most = 0;
  };
  std::optional<Counts> take_counts();

  static constexpr uint32_t kMostCount = 1'000'000'000;
};

}  // namespace tenon::grammar
