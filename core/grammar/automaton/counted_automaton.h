// A deterministic automaton whose edges read texts, and how many edges an answer may take: what
// patterns and a length have in common, without a state for every length. The edges that were taken
// are counted on the stack (core/grammar/matching/machine.h); where the end can still be reached in
// time is known here.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {

// Node 0 starts. Every node leads to one that accepts, and something satisfies every text.
struct CountedNodes {
  struct Edge {
    ExprId text = 0;  // no other edge of the node reads the same text
    uint32_t target = 0;
  };
  struct Node {
    std::vector<Edge> edges;  // a target each
    bool accepts = false;
  };
  std::vector<Node> nodes;
};

class CountedAutomaton {
 public:
  // `least` to `most` edges, kUnbounded = any number. Error: unsupported, the ways through the
  // nodes come round too late to be tabled.
  static Result<CountedAutomaton> make(CountedNodes graph, uint32_t least, uint32_t most);

  const std::vector<CountedNodes::Node>& nodes() const { return graph_.nodes; }
  uint32_t least() const { return least_; }
  uint32_t most() const { return most_; }
  bool counts() const { return least_ > 0 || most_ != kUnbounded; }

  // Whether an end can be reached from `node`, to which `count` edges have led.
  bool is_live(uint32_t node, uint32_t count) const;
  // A count that is as good as this one, the same for all that are: so they are not told apart
  // where nothing depends on it.
  uint32_t counted(uint32_t count) const {
    return most_ == kUnbounded && count > least_ ? least_ : count;
  }
  // … likewise as far as the next `horizon` edges show.
  uint32_t alike(uint32_t count, uint32_t horizon) const;

 private:
  void find_shortest();
  void find_longest();
  Status find_rounds();

  CountedNodes graph_;
  uint32_t least_ = 0, most_ = kUnbounded;
  std::vector<uint32_t> shortest_;  // [nodes] edges to an end
  std::vector<uint32_t> longest_;   // [nodes] likewise; kUnbounded = there is no longest way
  uint32_t farthest_ = 0, longest_of_all_ = 0;  // the largest of each, but for kUnbounded
  // Where the window of lengths is narrower than some shortest way: [rounds][ceil(nodes/64)],
  // whether an end is in the window that begins so many edges away. The last ones repeat.
  std::vector<std::vector<uint64_t>> rounds_;
  size_t repeats_from_ = 0;
};

}  // namespace tenon::grammar
