#include "core/grammar/notation/text_form.h"

#include <map>

namespace tenon::grammar {
namespace {

std::string escape_of(unsigned char code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      constexpr char kHex[] = "0123456789abcdef";
      return std::string("\\u00") + kHex[code >> 4] + kHex[code & 15];
  }
}

bool needs_escape(unsigned char code) {
  return code == '"' || code == '\\' || code < 0x20;
}

}  // namespace

ExprId write_character(Expressions& expressions, const CodeSet& codes, TextForm form) {
  if (form == TextForm::raw) return expressions.character(codes);
  std::vector<ExprId> parts;
  const CodeSet plain = codes.common(plain_characters());
  if (!plain.empty()) parts.push_back(expressions.character(plain));
  // Escapes share what they begin with: each beginning is read once.
  std::string letters;
  std::map<std::string, std::string> last_digits;  // of \u00.., by what comes before them
  for (unsigned char code = 0; code < 0x80; ++code) {
    if (!needs_escape(code) || !codes.contains(code)) continue;
    const std::string escape = escape_of(code);
    if (escape.size() == 2) {
      letters += escape.back();
    } else {
      last_digits[escape.substr(1, escape.size() - 2)] += escape.back();
    }
  }
  std::vector<ExprId> behind;
  if (!letters.empty()) behind.push_back(expressions.character(letters));
  for (const auto& [begin, digits] : last_digits) {
    behind.push_back(
        expressions.sequence({expressions.literal(begin), expressions.character(digits)}));
  }
  if (!behind.empty()) {
    const ExprId rest = expressions.choice(std::move(behind));
    parts.push_back(expressions.sequence({expressions.literal("\\"), rest}));
  }
  return expressions.choice(std::move(parts));
}

std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (needs_escape(code)) {
      out += escape_of(code);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace tenon::grammar
