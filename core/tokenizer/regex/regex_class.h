// Character classes of the Oniguruma dialect, translated for PCRE2. Part of regex_syntax.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::tok {

// A position in a pattern, shared by the translators of its parts.
struct PatternCursor {
  std::string_view pattern;  // structurally valid UTF-8
  size_t at = 0;

  bool done() const { return at >= pattern.size(); }
  char peek(size_t ahead = 0) const {
    return at + ahead < pattern.size() ? pattern[at + ahead] : '\0';
  }
  bool take(std::string_view text) {
    if (pattern.substr(at, text.size()) != text) return false;
    at += text.size();
    return true;
  }
  char32_t take_rune();
  // "…: a verb (*…) is not supported", and "…: a class without its closing bracket".
  Status refuse(std::string_view what) const;
  Status malformed(std::string_view what) const;
};

// What one item may contribute to a bracket expression of PCRE2: text between the brackets, or,
// where brackets cannot say it, an expression of its own that matches one character.
struct ClassItem {
  std::string inside;
  std::string standalone;
};

// "\x{…}", safe inside and outside of brackets.
std::string escaped_rune(char32_t code);

// After "\": a shorthand such as \s or \p{L}; nullopt, with nothing consumed, for other escapes.
Result<std::optional<ClassItem>> translate_shorthand(PatternCursor& cursor, bool in_class);
// After "\": an escape that stands for one character (\n, \x{20}, \-, …).
Result<char32_t> translate_char_escape(PatternCursor& cursor);
// After "[": up to and with the closing bracket, as an expression that matches one character.
Result<std::string> translate_class(PatternCursor& cursor);

// A class that matches what \w (or \W) does outside of brackets.
std::string word_class(bool negated);
// The members of \w and \s, for brackets.
std::string_view word_members();
std::string_view space_members();

}  // namespace tenon::tok
