#include "core/tokenizer/models/byte_level.h"

#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;

struct Alphabet {
  std::array<char32_t, 256> rune_of;
  std::array<std::array<char, 2>, 256> text_of;
  std::array<uint8_t, 256> bytes_of;
  std::array<int16_t, kAlphabetEnd> byte_of;
};

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Alphabet make_alphabet() {
  Alphabet table{};
  for (int16_t& byte : table.byte_of) byte = -1;
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char32_t code = stands_for_itself(byte) ? byte : next++;
    table.rune_of[byte] = code;
    table.byte_of[code] = static_cast<int16_t>(byte);
    table.bytes_of[byte] = code < 0x80 ? 1 : 2;
    table.text_of[byte][0] =
        code < 0x80 ? static_cast<char>(code) : static_cast<char>(0xC0 | (code >> 6));
    table.text_of[byte][1] = static_cast<char>(0x80 | (code & 0x3F));
  }
  return table;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.rune_of[255] == 255 && kAlphabet.rune_of[0xAD] == kAlphabetEnd - 1);

void append_byte(std::string& out, uint8_t byte) {
  out.append(kAlphabet.text_of[byte].data(), kAlphabet.bytes_of[byte]);
}

}  // namespace

char32_t byte_level_rune(uint8_t byte) {
  return kAlphabet.rune_of[byte];
}

std::optional<uint8_t> byte_level_byte(char32_t code) {
  if (code >= kAlphabetEnd || kAlphabet.byte_of[code] < 0) return std::nullopt;
  return static_cast<uint8_t>(kAlphabet.byte_of[code]);
}

void append_byte_level(std::string& out, std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    // Only surrogates follow 0xED with 0xA0 or more; here these are escaped bytes.
    if (byte == 0xED && static_cast<uint8_t>(text[at + 1]) >= 0xA0) {
      append_byte(out, escaped_byte(first_rune(text.substr(at)).code));
      at += 2;
    } else {
      append_byte(out, byte);
    }
  }
}

bool append_byte_level_decoded(std::string& out, std::string_view piece) {
  const size_t before = out.size();
  while (!piece.empty()) {
    const Rune rune = first_rune(piece);
    const auto byte = byte_level_byte(rune.code);
    if (!byte) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(*byte));
    piece.remove_prefix(rune.bytes);
  }
  return true;
}

}  // namespace tenon::tok
