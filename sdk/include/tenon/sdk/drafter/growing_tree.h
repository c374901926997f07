// One sequence's tree of drafts while it grows, level by level.
//
// Where drafts are verified exactly, any tree will do: what is proposed in the end are the tokens
// of the highest probability, as the product of the shares along their paths. Where they are
// verified by rejection, whether a token is proposed must not depend on which token it is: they are
// proposed in the order in which they were drawn, as many as there is room for.
#pragma once

#include <tenon/types.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace tenon::sdk {

class GrowingTree {
 public:
  struct Node {
    TokenId token = kNoToken;
    int32_t parent = -1;   // an earlier node; -1: what is known
    uint32_t depth = 1;    // tokens from what is known on, itself counted
    double log_share = 0;  // of the product along its path
  };

  // `most`: tokens that may be proposed. `in_order`: as they were drawn.
  void begin(uint32_t most, bool in_order) {
    most_ = most;
    in_order_ = in_order;
    nodes_.clear();
    chosen_.clear();
    level_ = 0;
  }

  uint32_t most() const { return most_; }
  bool in_order() const { return in_order_; }
  std::span<const Node> nodes() const { return nodes_; }
  uint32_t depth_of(int32_t node) const { return node < 0 ? 0 : at(node).depth; }
  // Whether another token would be proposed at all, wherever it stands.
  bool full() const { return in_order_ && nodes_.size() >= most_; }

  // A token after `parent`, with its share of what may follow there, as a logarithm.
  void add(int32_t parent, TokenId token, double log_share) {
    const double before = parent < 0 ? 0.0 : at(parent).log_share;
    nodes_.push_back({token, parent, depth_of(parent) + 1, before + std::min(log_share, 0.0)});
  }

  // The tokens after `node`, itself counted last, in the order of the text. Into `path`, which has
  // room for as many as its depth.
  void write_path(int32_t node, std::span<TokenId> path) const {
    for (uint32_t i = depth_of(node); node >= 0; node = at(node).parent) path[--i] = at(node).token;
  }

  // Ends a level: the nodes that were added since the last call and that tokens may follow, because
  // they could still be among those that are proposed.
  std::span<const int32_t> next_level() {
    choose();
    const auto fresh = static_cast<int32_t>(level_);
    level_ = nodes_.size();
    open_.clear();
    // The last of a full choice would have to give way to what follows it.
    const size_t left = chosen_.size() == most_ && !in_order_ ? chosen_.size() - 1 : chosen_.size();
    if (!full()) {
      std::copy_if(chosen_.begin(), chosen_.begin() + static_cast<ptrdiff_t>(left),
                   std::back_inserter(open_), [&](int32_t node) { return node >= fresh; });
    }
    std::ranges::sort(open_);
    return open_;
  }

  // What is proposed: nodes after those that they follow. Valid after `next_level`.
  std::span<const int32_t> chosen() const { return chosen_; }

 private:
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }

  // A node is never more probable than the one before it, so the best ones form a tree.
  void choose() {
    chosen_.resize(nodes_.size());
    std::iota(chosen_.begin(), chosen_.end(), 0);
    if (!in_order_) {
      std::ranges::stable_sort(
          chosen_, [&](int32_t a, int32_t b) { return at(a).log_share > at(b).log_share; });
    }
    if (chosen_.size() > most_) chosen_.resize(most_);
  }

  uint32_t most_ = 0;
  bool in_order_ = false;
  size_t level_ = 0;  // nodes before the last level
  std::vector<Node> nodes_;
  std::vector<int32_t> chosen_, open_;
};

}  // namespace tenon::sdk
