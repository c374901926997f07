// The suffix automaton of a growing text (Blumer et al., 1985), built token by token.
//
// Each state stands for the substrings that end at the same places of the text; `link` leads to the
// longest suffix of them that ends at more places. The state of the whole text therefore links to
// the longest suffix that has occurred before. A text of n tokens has at most 2n states and 3n
// transitions; a token costs amortised constant time.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::suffix {

class SuffixAutomaton {
 public:
  using State = uint32_t;
  static constexpr State kRoot = 0;
  static constexpr State kNone = 0xffffffffu;

  SuffixAutomaton();

  void push(TokenId token);
  uint32_t size() const { return size_; }  // tokens pushed

  // The longest suffix of the text that also stands further ahead; kRoot when there is none.
  State longest_repeated() const { return states_[last_].link; }
  State link(State state) const { return states_[state].link; }
  uint32_t length(State state) const { return states_[state].length; }

  // A token that has followed `state`'s substrings, and where it leads.
  struct Step {
    State to = kNone;
    TokenId token = kNoToken;
    double share = 0;  // of all that followed
  };
  Step earliest(State state) const;       // what followed first
  Step most_frequent(State state) const;  // what followed most often, the earlier one among equals

 private:
  struct Node {
    uint32_t length = 0;
    State link = kNone;
    uint32_t first_end = 0;  // the earliest place after its substrings
    uint32_t count = 0;      // places
    uint32_t first_edge = kNone;
  };
  struct Edge {
    State from = kNone;
    TokenId token = kNoToken;
    State to = kNone;
    uint32_t next = kNone;  // of the same state
  };

  uint32_t find(State from, TokenId token) const;  // an edge, or kNone
  void connect(State from, TokenId token, State to);
  State split(State from, State to, TokenId token);
  void count_suffixes();
  uint32_t slot_of(State from, TokenId token) const;
  double total(State state) const;

  std::vector<Node> states_;
  std::vector<Edge> edges_;
  std::vector<uint32_t>
      slots_;  // open addressing over edges, a power of two; 0 = free, else 1 + edge
  State last_ = kRoot;
  uint32_t size_ = 0;
};

}  // namespace tenon::suffix
