#include "core/tokenizer/models/text_trie.h"

#include <algorithm>

namespace tenon::tok {
namespace {

// Bytes of a text at a time: large compared with the bytes read beyond it, small enough for a
// cache.
constexpr size_t kPartBytes = 8192;

}  // namespace

void TextTrie::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  added_.emplace_back(std::string(text.rbegin(), text.rend()), Match{text.size(), id});
  longest_ = std::max(longest_, text.size());
}

void TextTrie::build() {
  std::vector<std::pair<std::string, uint32_t>> reversed;
  reversed.reserve(added_.size());
  for (auto& [text, match] : added_) {
    matches_.push_back(match);
    reversed.emplace_back(std::move(text), static_cast<uint32_t>(matches_.size()));
  }
  added_ = {};
  if (matches_.empty()) return;
  std::ranges::sort(reversed);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  reversed.erase(std::unique(reversed.begin(), reversed.end(), same), reversed.end());
  add_nodes(reversed);
  connect();
}

// Nodes in the order of their length, which puts children together. A node has the texts [first,
// last) of the sorted ones below it.
void TextTrie::add_nodes(const std::vector<std::pair<std::string, uint32_t>>& reversed) {
  struct Below {
    uint32_t first, last;
  };
  std::vector<Below> level = {{0, static_cast<uint32_t>(reversed.size())}};
  nodes_.assign(1, Node{});
  size_t parent = kRoot;
  for (size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Below> deeper;
    for (const Below& below : level) {
      nodes_[parent].first_child = static_cast<uint32_t>(nodes_.size());
      uint32_t first = below.first;
      if (reversed[first].first.size() == depth) nodes_[parent].match = reversed[first++].second;
      ++parent;
      while (first < below.last) {
        const char byte = reversed[first].first[depth];
        uint32_t last = first;
        while (last < below.last && reversed[last].first[depth] == byte) ++last;
        nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
        deeper.push_back({first, last});
        first = last;
      }
    }
    level = std::move(deeper);
  }
  nodes_.push_back({.first_child = static_cast<uint32_t>(nodes_.size())});
  for (uint32_t i = nodes_[kRoot].first_child; i < nodes_[kRoot + 1].first_child; ++i) {
    of_byte_[nodes_[i].byte] = i;
  }
}

// A node's `shorter` is shorter, so it is there before; it ends with the longest text that the node
// ends with, unless that is the node itself.
void TextTrie::connect() {
  for (uint32_t node = 0; node + 1 < nodes_.size(); ++node) {
    for (uint32_t i = nodes_[node].first_child; i < nodes_[node + 1].first_child; ++i) {
      nodes_[i].shorter =
          node == kRoot ? kRoot : next(nodes_[node].shorter, nodes_[i].byte, build_steps_);
      if (nodes_[i].match == 0) nodes_[i].match = nodes_[nodes_[i].shorter].match;
    }
  }
}

uint32_t TextTrie::child(uint32_t node, uint8_t byte) const {
  if (node == kRoot) return of_byte_[byte];
  uint32_t first = nodes_[node].first_child;
  uint32_t last = nodes_[node + 1].first_child;
  while (first < last) {
    const uint32_t middle = first + (last - first) / 2;
    if (nodes_[middle].byte == byte) return middle;
    nodes_[middle].byte < byte ? first = middle + 1 : last = middle;
  }
  return 0;
}

uint32_t TextTrie::next(uint32_t node, uint8_t byte, uint64_t& steps) const {
  for (;; node = nodes_[node].shorter) {
    ++steps;
    const uint32_t longer = child(node, byte);
    if (longer != 0 || node == kRoot) return longer;
  }
}

// Bytes further after a position than the longest text have no effect on it.
void TextScan::read(size_t from) {
  begin_ = from;
  end_ = std::min(text_.size(), from + std::max(kPartBytes, 8 * trie_.longest_));
  found_.resize(end_ - begin_);
  uint32_t node = TextTrie::kRoot;
  for (size_t at = std::min(text_.size(), end_ + trie_.longest_); at-- > begin_;) {
    node = trie_.next(node, static_cast<uint8_t>(text_[at]), steps_);
    if (at < end_) found_[at - begin_] = trie_.nodes_[node].match;
  }
}

}  // namespace tenon::tok
