#include "core/tokenizer/utf8.h"

#include <algorithm>
#include <cstring>

namespace tenon::tok {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}
bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

// The bytes a lead byte asks for, 0 for a byte that cannot lead.
uint32_t announced(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// The second byte decides about overlong forms, surrogates and the end of Unicode.
bool second_fits(uint8_t lead, uint8_t second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return is_continuation(second);
  }
}

// How many leading bytes of `text` can belong to one character that starts there.
uint32_t matching_bytes(std::string_view text, uint32_t wanted) {
  uint32_t count = 1;
  while (count < wanted && count < text.size()) {
    const uint8_t byte = byte_at(text, count);
    if (count == 1 ? !second_fits(byte_at(text, 0), byte) : !is_continuation(byte)) break;
    ++count;
  }
  return count;
}

// Skips ASCII eight bytes at a time; the result is an offset at or before the first other byte.
size_t ascii_prefix(std::string_view text, size_t from) {
  while (from + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + from, 8);
    if ((word & 0x8080808080808080u) != 0) break;
    from += 8;
  }
  return from;
}

// The offset of the first byte that is not part of valid UTF-8, at or after `from`.
size_t valid_until(std::string_view text, size_t from) {
  while (from < text.size()) {
    from = ascii_prefix(text, from);
    if (from == text.size()) break;
    const uint32_t bytes = valid_sequence(text.substr(from));
    if (bytes == 0) break;
    from += bytes;
  }
  return from;
}

}  // namespace

uint32_t valid_sequence(std::string_view text) {
  if (text.empty()) return 0;
  const uint32_t wanted = announced(byte_at(text, 0));
  if (wanted <= 1) return wanted;
  return matching_bytes(text, wanted) == wanted ? wanted : 0;
}

bool is_valid_utf8(std::string_view text) {
  return valid_until(text, 0) == text.size();
}

std::string escape_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t from = 0;
  while (from < text.size()) {
    const size_t until = valid_until(text, from);
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

size_t incomplete_tail(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(3, bytes.size()); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if (is_continuation(byte_at(tail, 0))) continue;
    const uint32_t wanted = announced(byte_at(tail, 0));
    return wanted > length && matching_bytes(tail, wanted) == length ? length : 0;
  }
  return 0;
}

}  // namespace tenon::tok
