// The escapes that bracket expressions and the rest of a pattern share.
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/tokenizer/regex/regex_class.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

// White_Space. PCRE2's own \s has U+180E, which left that property with Unicode 6.3.
constexpr std::string_view kSpaceMembers =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Letters, marks, digits and connectors, and circled letters.
constexpr std::string_view kWordMembers =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
// Six Latin-1 signs that Oniguruma counts too, but not inside of brackets.
constexpr std::string_view kMoreWordMembers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexMembers = "0-9a-fA-F";

using NamePair = std::pair<std::string_view, std::string_view>;
constexpr std::array<NamePair, 42> kLongNames{{
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"any", "Any"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"digit", "Nd"},
    {"cntrl", "Cc"},
}};

bool is_category(std::string_view name) {
  constexpr std::string_view kMajor = "LMNPSZC";
  if (name == "L&" || name == "Any") return true;
  if (name.empty() || name.size() > 2 || kMajor.find(name[0]) == std::string_view::npos) {
    return false;
  }
  return name.size() == 1 || std::islower(static_cast<unsigned char>(name[1])) != 0;
}

// Oniguruma compares property names without case, spaces, hyphens and underscores.
std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

// The name for PCRE2's \p{…}: a general category, else a script (by its own characters, not by
// script extensions).
std::string property_name(std::string_view name) {
  const std::string key = folded(name);
  for (const auto& [longer, category] : kLongNames) {
    if (key == longer) return std::string(category);
  }
  std::string category = key;
  if (!category.empty()) {
    category[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(category[0])));
  }
  return is_category(category) ? category : "sc:" + key;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == ' ' ||
           c == '&';
  });
}

ClassItem members(std::string_view inside, bool negated) {
  if (!negated) return {std::string(inside), "[" + std::string(inside) + "]"};
  return {"", "[^" + std::string(inside) + "]"};
}

// After "\p" or "\P": "{Name}" or "{^Name}".
Result<ClassItem> translate_property(PatternCursor& cursor, bool negated) {
  const size_t close = cursor.pattern.find('}', cursor.at);
  if (cursor.peek() != '{' || close == std::string_view::npos) {
    return cursor.refuse("\\p without a name in braces");
  }
  std::string_view name = cursor.pattern.substr(cursor.at + 1, close - cursor.at - 1);
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  if (!is_name(name)) return cursor.refuse("\\p with this name");
  cursor.at = close + 1;
  const std::string text = std::string(negated ? "\\P{" : "\\p{") + property_name(name) + "}";
  return ClassItem{text, text};
}

// Up to `most` digits of a base; nullopt when there is none.
std::optional<char32_t> take_number(PatternCursor& cursor, int base, int most) {
  const size_t begin = cursor.at;
  char32_t value = 0;
  while (!cursor.done() && most-- > 0) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(cursor.peek())));
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
    if (digit >= base) break;
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    ++cursor.at;
  }
  if (cursor.at == begin) return std::nullopt;
  return value;
}

Result<char32_t> take_hexadecimal(PatternCursor& cursor) {
  if (cursor.take("{")) {
    const auto value = take_number(cursor, 16, 6);
    const bool is_scalar = value && *value <= 0x10FFFF && (*value < 0xD800 || *value > 0xDFFF);
    if (!is_scalar || !cursor.take("}")) return cursor.malformed("\\x{…} that is no character");
    return *value;
  }
  const auto value = take_number(cursor, 16, 2);
  // Two digits name a byte of the encoding, so only ASCII is a character.
  if (!value || *value > 0x7F) return cursor.refuse("\\x of a byte that is no character");
  return *value;
}

}  // namespace

std::string_view word_members() {
  return kWordMembers;
}
std::string_view space_members() {
  return kSpaceMembers;
}

char32_t PatternCursor::take_rune() {
  const Rune rune = first_rune(pattern.substr(at));
  at += rune.bytes;
  return rune.code;
}

Status PatternCursor::malformed(std::string_view what) const {
  return invalid_argument("regular expression at byte " + std::to_string(at) + ": " +
                          std::string(what));
}

Status PatternCursor::refuse(std::string_view what) const {
  return unsupported("regular expression at byte " + std::to_string(at) + ": " + std::string(what) +
                     " is not supported");
}

std::string escaped_rune(char32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[code & 15]);
    code >>= 4;
  } while (code != 0);
  return "\\x{" + digits + "}";
}

std::string word_class(bool negated) {
  return (negated ? "[^" : "[") + std::string(kWordMembers) + std::string(kMoreWordMembers) + "]";
}

Result<std::optional<ClassItem>> translate_shorthand(PatternCursor& cursor, bool in_class) {
  using Item = std::optional<ClassItem>;
  const char c = cursor.peek();
  const bool negated = std::isupper(static_cast<unsigned char>(c)) != 0;
  switch (c) {
    case 's':
    case 'S':
      ++cursor.at;
      return Item(members(kSpaceMembers, negated));
    case 'w':
    case 'W':
      ++cursor.at;
      if (!in_class) return Item(ClassItem{"", word_class(negated)});
      return Item(members(kWordMembers, negated));
    case 'h':
    case 'H':
      ++cursor.at;
      return Item(members(kHexMembers, negated));
    case 'd':
      ++cursor.at;
      return Item(ClassItem{"\\p{Nd}", "\\p{Nd}"});
    case 'D':
      ++cursor.at;
      return Item(ClassItem{"\\P{Nd}", "\\P{Nd}"});
    case 'p':
    case 'P': {
      ++cursor.at;
      TENON_ASSIGN_OR_RETURN(ClassItem item, translate_property(cursor, negated));
      return Item(std::move(item));
    }
    default:
      return Item();
  }
}

Result<char32_t> translate_char_escape(PatternCursor& cursor) {
  if (cursor.done()) return cursor.malformed("a backslash at the end");
  const char32_t code = cursor.take_rune();
  switch (code) {
    case 't':
      return char32_t{0x09};
    case 'n':
      return char32_t{0x0A};
    case 'v':
      return char32_t{0x0B};
    case 'f':
      return char32_t{0x0C};
    case 'r':
      return char32_t{0x0D};
    case 'a':
      return char32_t{0x07};
    case 'e':
      return char32_t{0x1B};
    case 'x':
      return take_hexadecimal(cursor);
    case 'u': {
      const auto value = take_number(cursor, 16, 4);
      if (!value || (*value >= 0xD800 && *value <= 0xDFFF)) {
        return cursor.malformed("\\u that is no character");
      }
      return *value;
    }
    case '0':
      return take_number(cursor, 8, 2).value_or(0);
    default:
      break;
  }
  if (code < 0x80 && std::isalnum(static_cast<int>(code)) != 0) {
    return cursor.refuse("\\" + std::string(1, static_cast<char>(code)));
  }
  return code;
}

}  // namespace tenon::tok
