// A trie over byte strings for finding the longest of many strings at a position.
#pragma once

#include <tenon/types.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::tok {

// Filled once, then immutable and safe to read from any thread.
class TextTrie {
 public:
  struct Match {
    size_t bytes = 0;  // 0: none
    TokenId id = kNoToken;
  };

  TextTrie() : nodes_(1) { roots_.fill(0); }

  // Of two equal texts the first stays. Empty texts are left out.
  void add(std::string_view text, TokenId id);
  bool empty() const { return nodes_.size() == 1; }

  // The longest text that stands at the front of `text`.
  Match longest(std::string_view text) const;

 private:
  struct Node {
    uint32_t child = 0;    // first child; 0: none
    uint32_t sibling = 0;  // next child of the same parent; 0: none
    TokenId id = kNoToken;
    uint8_t byte = 0;
  };
  uint32_t step(uint32_t node, uint8_t byte) const;

  std::array<uint32_t, 256> roots_;  // the node of each first byte; 0: none
  std::vector<Node> nodes_;
};

}  // namespace tenon::tok
