#include "core/unicode/utf8.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace tenon::tok {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}
bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

}  // namespace

std::string escape_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t from = 0;
  while (from < text.size()) {
    const size_t until = utf8_until(text, from);
    out.append(text, from, until - from);
    from = until;
    if (from < text.size()) append_rune(out, 0xDC00u + byte_at(text, from++));
  }
  return out;
}

void append_unescaped(std::string& out, std::string_view text) {
  size_t from = 0;
  while (from < text.size()) {
    const size_t lead = std::min(text.find('\xED', from), text.size());
    out.append(text, from, lead - from);
    if (lead == text.size()) return;
    const Rune rune = first_rune(text.substr(lead));
    if (is_escaped_byte(rune.code)) {
      out.push_back(static_cast<char>(escaped_byte(rune.code)));
    } else {
      out.append(text, lead, rune.bytes);
    }
    from = lead + rune.bytes;
  }
}

Rune first_rune(std::string_view text) {
  const uint32_t bytes = rune_bytes(text[0]);
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte_at(text, i) & 0x3F); };
  switch (bytes) {
    case 1:
      return {byte_at(text, 0), 1};
    case 2:
      return {(static_cast<char32_t>(byte_at(text, 0) & 0x1F) << 6) | tail(1), 2};
    case 3:
      return {(static_cast<char32_t>(byte_at(text, 0) & 0x0F) << 12) | (tail(1) << 6) | tail(2), 3};
    default:
      return {(static_cast<char32_t>(byte_at(text, 0) & 0x07) << 18) | (tail(1) << 12) |
                  (tail(2) << 6) | tail(3),
              4};
  }
}

Rune last_rune(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && is_continuation(byte_at(text, begin))) --begin;
  return first_rune(text.substr(begin));
}

void append_rune(std::string& out, char32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(tail(0));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(tail(6));
    out.push_back(tail(0));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(tail(12));
    out.push_back(tail(6));
    out.push_back(tail(0));
  }
}

}  // namespace tenon::tok
