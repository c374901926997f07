#include "core/base/utf8.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}
bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

// The bytes a lead byte asks for, 0 for a byte that cannot lead.
size_t announced(uint8_t lead) {
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
size_t matching_bytes(std::string_view text, size_t wanted) {
  size_t count = 1;
  while (count < wanted && count < text.size()) {
    const uint8_t byte = byte_at(text, count);
    if (count == 1 ? !second_fits(byte_at(text, 0), byte) : !is_continuation(byte)) break;
    ++count;
  }
  return count;
}

// Skips ASCII eight bytes at a time; the result is an offset at or before the first other byte.
size_t ascii_until(std::string_view text, size_t from) {
  while (from + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + from, 8);
    if ((word & 0x8080808080808080u) != 0) break;
    from += 8;
  }
  return from;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const uint8_t lead = byte_at(text, 0);
  const size_t bytes = announced(lead);
  if (bytes <= 1) return {bytes == 0 ? 0u : lead, bytes};
  if (matching_bytes(text, bytes) != bytes) return {};
  uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte_at(text, i) & 0x3Fu);
  return {code, bytes};
}

size_t utf8_until(std::string_view text, size_t from) {
  while (from < text.size()) {
    from = ascii_until(text, from);
    const size_t bytes = first_character(text.substr(from)).bytes;
    if (bytes == 0) break;
    from += bytes;
  }
  return from;
}

bool is_utf8(std::string_view text) {
  return utf8_until(text) == text.size();
}

size_t incomplete_tail(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(3, bytes.size()); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if (is_continuation(byte_at(tail, 0))) continue;
    const size_t wanted = announced(byte_at(tail, 0));
    return wanted > length && matching_bytes(tail, wanted) == length ? length : 0;
  }
  return 0;
}

}  // namespace tenon
