// What the option `tree` of a drafter says: how its drafts branch.
//
//   ""        they do not: a chain
//   "2,2,1"   widths by level: two first tokens, two after each of them, one after each of those
//   "grow"    by probability, as many as `max_draft_tokens`
//
// An option of this name makes a pipeline ask everybody for trees (docs/plugins/drafter.md).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

// Drafts that an engine asks a sequence for at most.
inline constexpr uint32_t kMostNodes = 32;

struct TreeShape {
  bool grows = false;
  std::vector<uint32_t> widths;  // [levels]; empty: a chain, or a tree that grows
  uint32_t nodes = 0;            // of all levels, or as many as it grows to

  bool is_tree() const { return nodes > 0; }
  // How many tokens may follow a node of so many tokens' depth, 0 being what is known.
  uint32_t width_at(uint32_t depth) const {
    if (grows) return nodes;
    return depth < widths.size() ? widths[depth] : 0;
  }
};

namespace detail {

[[noreturn]] inline void refuse_tree(std::string_view text, const std::string& what) {
  throw std::runtime_error("drafter.options.tree is \"" + std::string(text) + "\", " + what);
}

inline uint32_t read_width(std::string_view text, std::string_view word) {
  uint32_t width = 0;
  for (const char c : word) {
    if (c < '0' || c > '9' || width > kMostNodes) width = kMostNodes + 1;
    if (width <= kMostNodes) width = 10 * width + static_cast<uint32_t>(c - '0');
  }
  if (width == 0 || width > kMostNodes) {
    refuse_tree(text, "where \"" + std::string(word) + "\" is no width from 1 to " +
                          std::to_string(kMostNodes) +
                          "; write widths by level with commas, as \"2,2,1\", or \"grow\"");
  }
  return width;
}

}  // namespace detail

// `most`: tokens of a tree that grows. Throws std::runtime_error with a sentence.
inline TreeShape read_tree_shape(std::string_view text, int64_t most) {
  TreeShape shape;
  if (text.empty()) return shape;
  if (text == "grow") {
    shape.grows = true;
    shape.nodes = static_cast<uint32_t>(most);
    return shape;
  }
  uint64_t level = 1, nodes = 0;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    shape.widths.push_back(detail::read_width(text, rest.substr(0, comma)));
    level *= shape.widths.back();
    nodes += level;
    if (nodes > kMostNodes) break;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (nodes > kMostNodes) {
    detail::refuse_tree(text, "which are more than the " + std::to_string(kMostNodes) +
                                  " tokens that a sequence can be drafted at a time; write "
                                  "smaller widths, or \"grow\"");
  }
  shape.nodes = static_cast<uint32_t>(nodes);
  return shape;
}

}  // namespace tenon::sdk
