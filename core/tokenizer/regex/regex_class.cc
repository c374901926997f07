#include "core/tokenizer/regex/regex_class.h"

#include <array>
#include <utility>
#include <vector>

namespace tenon::tok {
namespace {

constexpr int kDeepestClass = 16;

// A set of characters while its brackets are read: a union of members and of expressions.
struct CharSet {
  std::string inside;
  std::vector<std::string> standalone;

  void add(ClassItem item) {
    if (!item.inside.empty()) {
      inside += item.inside;
    } else {
      standalone.push_back(std::move(item.standalone));
    }
  }
  // An expression that matches one character of the set; negated only where it is one class.
  std::string text(bool negated) const {
    if (standalone.empty()) return (negated ? "[^" : "[") + inside + "]";
    std::string out = negated ? "(?:(?!" : "(?:";
    if (!inside.empty()) out += "[" + inside + "]|";
    for (size_t i = 0; i < standalone.size(); ++i) out += (i == 0 ? "" : "|") + standalone[i];
    return out + (negated ? ")(?s:.))" : ")");
  }
  bool empty() const { return inside.empty() && standalone.empty(); }
};

std::string intersection(const std::vector<CharSet>& sets, bool negated) {
  if (sets.size() == 1) return sets[0].text(negated);
  std::string out = negated ? "(?:(?!" : "(?:";
  for (size_t i = 0; i + 1 < sets.size(); ++i) out += "(?=" + sets[i].text(false) + ")";
  out += sets.back().text(false);
  return out + (negated ? ")(?s:.))" : ")");
}

Result<ClassItem> translate_nested(PatternCursor& cursor, int depth);

// After "[:": "digit:]" and the like.
Result<ClassItem> translate_posix(PatternCursor& cursor) {
  const std::array<std::pair<std::string_view, std::string_view>, 5> names{{
      {"digit:]", R"(\p{Nd})"},
      {"xdigit:]", "0-9a-fA-F"},
      {"space:]", space_members()},
      {"word:]", word_members()},
      {"cntrl:]", R"(\p{Cc})"},
  }};
  const bool negated = cursor.take("^");
  for (const auto& [name, known] : names) {
    if (!cursor.take(name)) continue;
    const std::string members(known);
    if (negated) return ClassItem{"", "[^" + members + "]"};
    return ClassItem{members, "[" + members + "]"};
  }
  return cursor.refuse("this [:name:]");
}

// One character, as the start or the end of a range.
Result<char32_t> translate_class_char(PatternCursor& cursor) {
  if (!cursor.take("\\")) return cursor.take_rune();
  if (cursor.take("b")) return char32_t{0x08};
  return translate_char_escape(cursor);
}

bool is_range_next(const PatternCursor& cursor) {
  if (cursor.peek() != '-' || cursor.peek(1) == ']' || cursor.peek(1) == '\0') return false;
  // "a-\d" and "a-[…]" are no ranges: the hyphen stands for itself.
  if (cursor.peek(1) == '[') return false;
  constexpr std::string_view kShorthands = "sSwWhHdDpP";
  return cursor.peek(1) != '\\' || kShorthands.find(cursor.peek(2)) == std::string_view::npos;
}

Result<ClassItem> translate_char_or_range(PatternCursor& cursor) {
  TENON_ASSIGN_OR_RETURN(const char32_t first, translate_class_char(cursor));
  std::string text = escaped_rune(first);
  if (is_range_next(cursor)) {
    cursor.take("-");
    TENON_ASSIGN_OR_RETURN(const char32_t last, translate_class_char(cursor));
    if (last < first) return cursor.malformed("a range that runs backwards");
    text += "-" + escaped_rune(last);
  }
  return ClassItem{text, "[" + text + "]"};
}

Result<ClassItem> translate_item(PatternCursor& cursor, int depth) {
  if (cursor.take("[:")) return translate_posix(cursor);
  if (cursor.take("[")) return translate_nested(cursor, depth + 1);
  if (cursor.peek() == '\\') {
    ++cursor.at;
    TENON_ASSIGN_OR_RETURN(auto shorthand, translate_shorthand(cursor, /*in_class=*/true));
    if (shorthand) return *std::move(shorthand);
    --cursor.at;
  }
  return translate_char_or_range(cursor);
}

Result<ClassItem> translate_nested(PatternCursor& cursor, int depth) {
  if (depth > kDeepestClass) return cursor.refuse("a class nested this deeply");
  const bool negated = cursor.take("^");
  std::vector<CharSet> sets(1);
  bool is_first = true;
  while (is_first || cursor.peek() != ']') {
    if (cursor.done()) return cursor.malformed("a class without its closing bracket");
    if (cursor.take("&&")) {
      if (sets.back().empty()) return cursor.malformed("an empty side of &&");
      sets.emplace_back();
      continue;
    }
    is_first = false;
    TENON_ASSIGN_OR_RETURN(ClassItem item, translate_item(cursor, depth));
    sets.back().add(std::move(item));
  }
  cursor.take("]");
  if (sets.back().empty()) return cursor.malformed("an empty side of &&");
  const bool is_plain = sets.size() == 1 && sets[0].standalone.empty() && !negated;
  return ClassItem{is_plain ? sets[0].inside : "", intersection(sets, negated)};
}

}  // namespace

Result<std::string> translate_class(PatternCursor& cursor) {
  TENON_ASSIGN_OR_RETURN(ClassItem item, translate_nested(cursor, 0));
  return std::move(item.standalone);
}

}  // namespace tenon::tok
