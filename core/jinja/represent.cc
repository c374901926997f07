#include "core/jinja/represent.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/jinja/compare.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

void add_hex(char32_t code, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
    out += kDigits[(code >> static_cast<unsigned>(shift)) & 15];
  }
}

void add_quoted_character(std::string_view character, char quote, std::string& out) {
  const char32_t code = tok::first_rune(character).code;
  if (code == U'\\' || code == static_cast<char32_t>(quote)) {
    out += '\\';
    out += character;
  } else if (code == U'\n') {
    out += "\\n";
  } else if (code == U'\r') {
    out += "\\r";
  } else if (code == U'\t') {
    out += "\\t";
  } else if (tok::is_printable(code)) {
    out += character;
  } else {
    add_hex(code, out);
  }
}

// Quotes and escapes belong to the text: they are trusted where it is.
void add_quoted(const MarkedText& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string quoted(1, quote);
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = tok::rune_bytes(bytes[at]);
    add_quoted_character(bytes.substr(at, length), quote, quoted);
    at += length;
  }
  quoted += quote;
  const bool is_trusted = std::all_of(text.runs().begin(), text.runs().end(),
                                      [](const MarkedText::Run& run) { return run.is_trusted; });
  out.add(quoted, is_trusted && !text.empty());
}

Status add_list(const List& list, TextBuilder& out) {
  const bool is_tuple = list.kind == ListKind::tuple;
  out.add(is_tuple ? "(" : "[", false);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(", ", false);
    TENON_RETURN_IF_ERROR(add_representation(list.items[i], out));
  }
  if (is_tuple && list.items.size() == 1) out.add(",", false);
  out.add(is_tuple ? ")" : "]", false);
  return Status();
}

Status add_dict(const Dict& dict, TextBuilder& out) {
  out.add("{", false);
  bool is_first = true;
  for (const auto& [key, value] : dict.items) {
    if (!std::exchange(is_first, false)) out.add(", ", false);
    TENON_RETURN_IF_ERROR(add_representation(key, out));
    out.add(": ", false);
    TENON_RETURN_IF_ERROR(add_representation(value, out));
  }
  out.add("}", false);
  return Status();
}

}  // namespace

std::string integer_text(Integer value) {
  if (value == 0) return "0";
  const bool is_negative = value < 0;
  std::string digits;
  for (; value != 0; value /= 10) {
    const auto digit = static_cast<int>(value % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
  }
  if (is_negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  const size_t mark = text.find('e');
  int exponent = 0;
  const size_t digits_begin = mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_begin, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out(text.substr(0, mark));
    const std::string size = std::to_string(exponent < 0 ? -exponent : exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  const auto fixed =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed);
  std::string out(buffer, static_cast<size_t>(fixed.ptr - buffer));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

Status add_text(const Value& value, TextBuilder& out) {
  if (value.is_text()) {
    out.add(value.text());
    return Status();
  }
  return value.is_undefined() ? Status() : add_representation(value, out);
}

Result<MarkedText> to_text(const Value& value, Budget& budget) {
  TextBuilder out(budget);
  TENON_RETURN_IF_ERROR(add_text(value, out));
  return out.take();
}

Status add_representation(const Value& value, TextBuilder& out) {
  out.budget().spend(1);
  if (out.budget().is_exceeded()) return out.budget().status();
  if (value.is_none()) {
    out.add("None");
  } else if (value.is_undefined()) {
    out.add("Undefined");
  } else if (value.is_boolean()) {
    out.add(value.boolean() ? "True" : "False");
  } else if (value.is_integer()) {
    out.add(integer_text(value.whole()));
  } else if (value.is_real()) {
    out.add(real_text(value.real()));
  } else if (value.is_text()) {
    add_quoted(value.text(), out);
  } else if (value.list() != nullptr && value.list()->is_sequence()) {
    return add_list(*value.list(), out);
  } else if (value.dict() != nullptr) {
    return add_dict(*value.dict(), out);
  } else if (value.list() != nullptr && value.list()->kind == ListKind::view) {
    return invalid_argument("a view of a dictionary is written – make it a list first: '|list'");
  } else {
    return type_error("written", value);
  }
  return Status();
}

}  // namespace tenon::chat
