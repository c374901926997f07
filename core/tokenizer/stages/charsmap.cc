#include "core/tokenizer/stages/charsmap.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace tenon::tok {
namespace {

// A damaged trie may lead in circles, so that its keys have no end of their own.
constexpr size_t kLongestKey = 256;

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

size_t offset_of(uint32_t unit) {
  return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6);
}
bool has_leaf(uint32_t unit) {
  return ((unit >> 8) & 1) != 0;
}
uint32_t label_of(uint32_t unit) {
  return unit & ((1u << 31) | 0xFF);
}
// Whether a character may start here; a damaged map must not cut characters apart.
bool is_boundary(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80;
}
size_t value_of(uint32_t unit) {
  return unit & ((1u << 31) - 1);
}

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view blob) {
  if (blob.size() < 4) return invalid_argument("the precompiled character map is cut off");
  const size_t trie_bytes = little_endian(blob);
  blob.remove_prefix(4);
  if (trie_bytes > blob.size() || trie_bytes % 4 != 0 || trie_bytes == 0) {
    return invalid_argument("the precompiled character map has a trie of " +
                            std::to_string(trie_bytes) + " bytes in a block of " +
                            std::to_string(blob.size()));
  }
  CharsMap map;
  map.units_.reserve(trie_bytes / 4);
  for (size_t at = 0; at < trie_bytes; at += 4) {
    map.units_.push_back(little_endian(blob.substr(at)));
  }
  map.replacements_ = std::string(blob.substr(trie_bytes));
  if (!is_utf8(map.replacements_)) {
    return invalid_argument("the replacements of the precompiled character map are no valid UTF-8");
  }
  return map;
}

CharsMap::Match CharsMap::longest(std::string_view text) const {
  size_t bytes = 0;
  size_t value = 0;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < std::min(text.size(), kLongestKey); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (node >= units_.size()) break;
    if (has_leaf(unit) && is_boundary(text, i + 1)) {
      bytes = i + 1;
      value = value_of(units_[node]);
    }
  }
  if (bytes == 0 || value >= replacements_.size() || !is_boundary(replacements_, value)) return {};
  const size_t end = std::min(replacements_.find('\0', value), replacements_.size());
  return {bytes, std::string_view(replacements_).substr(value, end - value)};
}

}  // namespace tenon::tok
