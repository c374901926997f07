#include "core/tokenizer/text_trie.h"

namespace tenon::tok {

uint32_t TextTrie::step(uint32_t node, uint8_t byte) const {
  uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

void TextTrie::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    uint32_t next = i == 0 ? roots_[byte] : step(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.sibling = i == 0 ? 0 : nodes_[node].child, .byte = byte});
      (i == 0 ? roots_[byte] : nodes_[node].child) = next;
    }
    node = next;
  }
  if (nodes_[node].id == kNoToken) nodes_[node].id = id;
}

TextTrie::Match TextTrie::longest(std::string_view text) const {
  Match best;
  if (text.empty()) return best;
  uint32_t node = roots_[static_cast<uint8_t>(text[0])];
  for (size_t i = 1; node != 0; ++i) {
    if (nodes_[node].id != kNoToken) best = {i, nodes_[node].id};
    if (i == text.size()) break;
    node = step(node, static_cast<uint8_t>(text[i]));
  }
  return best;
}

}  // namespace tenon::tok
