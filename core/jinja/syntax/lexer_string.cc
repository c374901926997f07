#include "core/jinja/syntax/lexer_string.h"

#include <array>
#include <cstdint>

#include "core/base/digest/hex.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kPlainEscapes = "abfnrtv\\'\"";
constexpr std::string_view kPlainMeanings = "\a\b\f\n\r\t\v\\'\"";

// Reads `most` digits at most; null where there are fewer than `least`.
std::optional<uint32_t> number(std::string_view text, size_t& at, int base, size_t least,
                               size_t most) {
  uint32_t code = 0;
  size_t count = 0;
  for (; count < most && at < text.size(); ++count, ++at) {
    const int digit = hex_digit(text[at]);
    if (digit < 0 || digit >= base) break;
    code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return count < least ? std::nullopt : std::optional(code);
}

std::optional<std::string> append_code(std::string_view text, size_t& at, int base, size_t least,
                                       size_t most, std::string& out) {
  auto code = number(text, at, base, least, most);
  if (!code) return "a string has an escape with too few digits";
  // JSON writes a character beyond 16 bits as two.
  size_t behind = at + 2;
  if (*code >= 0xD800 && *code <= 0xDBFF && text.substr(at).starts_with("\\u")) {
    const auto low = number(text, behind, 16, 4, 4);
    if (low && *low >= 0xDC00 && *low <= 0xDFFF) {
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
      at = behind;
    }
  }
  if (*code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF)) {
    return "a string has an escape that is no character";
  }
  tok::append_rune(out, *code);
  return std::nullopt;
}

std::optional<std::string> append_byte(std::string_view text, size_t& at, int base, size_t least,
                                       size_t most, std::string& out) {
  const auto code = number(text, at, base, least, most);
  if (!code || *code > 0xFF) return "bytes have an escape that is no byte";
  out += static_cast<char>(*code);
  return std::nullopt;
}

// Bytes know neither \u, \U nor \N, and hold ASCII alone.
std::optional<std::string> unescape(std::string_view inside, bool bytes, std::string& out) {
  const auto append = bytes ? append_byte : append_code;
  for (size_t at = 0; at < inside.size();) {
    const char c = inside[at++];
    if (bytes && static_cast<unsigned char>(c) >= 0x80) {
      return "bytes hold a character that is not ASCII";
    }
    if (c != '\\' || at >= inside.size()) {
      out += c;
      continue;
    }
    const char escape = inside[at++];
    const size_t plain = kPlainEscapes.find(escape);
    std::optional<std::string> fault;
    if (plain != std::string_view::npos) {
      out += kPlainMeanings[plain];
    } else if (escape == '\n') {
      continue;
    } else if (escape == 'x') {
      fault = append(inside, at, 16, 2, 2, out);
    } else if (escape >= '0' && escape <= '7') {
      fault = append(inside, --at, 8, 1, 3, out);
    } else if (escape == 'u' && !bytes) {
      fault = append_code(inside, at, 16, 4, 4, out);
    } else if (escape == 'U' && !bytes) {
      fault = append_code(inside, at, 16, 8, 8, out);
    } else if (escape == 'N' && !bytes) {
      return "a string names a character with '\\N', which is not supported – write it as it is";
    } else {
      out += '\\';
      out += escape;
    }
    if (fault) return fault;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unescape_bytes(std::string_view inside, std::string& out) {
  return unescape(inside, true, out);
}

std::optional<std::string> unescape_string(std::string_view inside, std::string& out) {
  return unescape(inside, false, out);
}

}  // namespace tenon::chat
