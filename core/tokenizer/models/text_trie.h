// Many strings, to be found in a text: at every position the longest of them that starts there.
//
// Files of tokenizers are untrusted: thousands of strings may begin alike, and a text may follow
// them far without any of them ending. So a text is read once, from its end to its beginning, by an
// automaton of the strings read backwards (Aho and Corasick 1975); what it knows at a position is
// the longest string that starts there. That takes a time proportional to the text, whatever the
// strings are.
#pragma once

#include <tenon/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::tok {

// Filled and built once, then immutable and safe to read from any thread.
class TextTrie {
 public:
  struct Match {
    size_t bytes = 0;  // 0: none
    TokenId id = kNoToken;
  };

  // Of two equal texts the first stays. Empty texts are left out.
  void add(std::string_view text, TokenId id);
  // After the last `add`. Takes 16 bytes of memory for each byte of the texts at most.
  void build();
  bool empty() const { return matches_.empty(); }
  // Moves from node to node so far, for tests of what texts cost.
  uint64_t build_steps() const { return build_steps_; }

 private:
  friend class TextScan;

  // Of the automaton: a string of bytes, read backwards, at which texts may be.
  struct Node {
    uint32_t first_child = 0;  // children stand together, sorted; the next node's begin after them
    uint32_t shorter = 0;      // the node of its longest proper end that has one
    uint32_t match = 0;        // in matches_, +1: the longest text that it ends with; 0: none
    uint8_t byte = 0;          // its last one
  };
  static constexpr uint32_t kRoot = 0;

  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none
  uint32_t next(uint32_t node, uint8_t byte, uint64_t& steps) const;
  void add_nodes(const std::vector<std::pair<std::string, uint32_t>>& reversed);
  void connect();

  std::vector<std::pair<std::string, Match>> added_;  // until they are built
  std::vector<Match> matches_;
  std::vector<Node> nodes_;                 // by length; one after the last
  std::array<uint32_t, 256> of_byte_ = {};  // the root's children
  size_t longest_ = 0;
  uint64_t build_steps_ = 0;
};

// Where a trie's texts stand in one text. Positions are asked for in rising order.
class TextScan {
 public:
  // Both outlive the scan.
  TextScan(const TextTrie& trie, std::string_view text) : trie_(trie), text_(text) {}

  // The longest of the trie's texts that stands at `at`, which is inside of the text.
  TextTrie::Match longest(size_t at) {
    if (trie_.empty()) return {};
    if (at >= end_) read(at);
    const uint32_t found = found_[at - begin_];
    return found == 0 ? TextTrie::Match{} : trie_.matches_[found - 1];
  }
  // As TextTrie::build_steps, of this text.
  uint64_t steps() const { return steps_; }

 private:
  void read(size_t from);

  const TextTrie& trie_;
  std::string_view text_;
  size_t begin_ = 0, end_ = 0;   // what is known
  std::vector<uint32_t> found_;  // [end_ - begin_] in matches_, +1; 0: none
  uint64_t steps_ = 0;
};

}  // namespace tenon::tok
