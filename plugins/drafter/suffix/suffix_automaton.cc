#include "plugins/drafter/suffix/suffix_automaton.h"

#include <algorithm>
#include <limits>

namespace tenon::suffix {
namespace {

// Occurrences are counted for the longest suffixes of each position. A text that repeats one token
// has as many suffixes as tokens, and nothing to choose between.
constexpr uint32_t kCountedSuffixes = 64;

}  // namespace

SuffixAutomaton::SuffixAutomaton() : states_(1), slots_(64, 0) {}

uint32_t SuffixAutomaton::slot_of(State from, TokenId token) const {
  uint64_t hash = (uint64_t{from} << 32 | static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15u;
  const auto mask = static_cast<uint32_t>(slots_.size() - 1);
  auto slot = static_cast<uint32_t>(hash >> 32) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Edge& edge = edges_[slots_[slot] - 1];
    if (edge.from == from && edge.token == token) break;
  }
  return slot;
}

uint32_t SuffixAutomaton::find(State from, TokenId token) const {
  const uint32_t found = slots_[slot_of(from, token)];
  return found == 0 ? kNone : found - 1;
}

void SuffixAutomaton::connect(State from, TokenId token, State to) {
  edges_.push_back({from, token, to, states_[from].first_edge});
  states_[from].first_edge = static_cast<uint32_t>(edges_.size() - 1);
  if (2 * edges_.size() > slots_.size()) {
    slots_.assign(2 * slots_.size(), 0);
    for (uint32_t i = 0; i < edges_.size(); ++i) {
      slots_[slot_of(edges_[i].from, edges_[i].token)] = i + 1;
    }
  } else {
    slots_[slot_of(from, token)] = static_cast<uint32_t>(edges_.size());
  }
}

// `to` stands for longer substrings than those that come from `from`: the shorter ones, which now
// end in one more place, get a state of their own.
SuffixAutomaton::State SuffixAutomaton::split(State from, State to, TokenId token) {
  const auto clone = static_cast<State>(states_.size());
  Node node = states_[to];
  node.length = states_[from].length + 1;
  node.first_edge = kNone;
  states_.push_back(node);
  for (uint32_t e = states_[to].first_edge; e != kNone; e = edges_[e].next) {
    connect(clone, edges_[e].token, edges_[e].to);
  }
  for (State s = from; s != kNone; s = states_[s].link) {
    const uint32_t edge = find(s, token);
    if (edge == kNone || edges_[edge].to != to) break;
    edges_[edge].to = clone;
  }
  states_[to].link = clone;
  return clone;
}

void SuffixAutomaton::push(TokenId token) {
  const auto made = static_cast<State>(states_.size());
  ++size_;
  states_.push_back({.length = states_[last_].length + 1, .first_end = size_});
  State from = last_;
  uint32_t edge = kNone;
  for (; from != kNone; from = states_[from].link) {
    edge = find(from, token);
    if (edge != kNone) break;
    connect(from, token, made);
  }
  State link = kRoot;
  if (from != kNone) {
    const State to = edges_[edge].to;
    const bool whole = states_[to].length == states_[from].length + 1;
    link = whole ? to : split(from, to, token);
  }
  states_[made].link = link;
  last_ = made;
  count_suffixes();
}

void SuffixAutomaton::count_suffixes() {
  State state = last_;
  for (uint32_t i = 0; i < kCountedSuffixes && state != kRoot; ++i, state = states_[state].link) {
    ++states_[state].count;
  }
}

double SuffixAutomaton::total(State state) const {
  double sum = 0;
  for (uint32_t e = states_[state].first_edge; e != kNone; e = edges_[e].next) {
    sum += std::max(states_[edges_[e].to].count, 1u);
  }
  return sum;
}

SuffixAutomaton::Step SuffixAutomaton::earliest(State state) const {
  Step best;
  uint32_t first = std::numeric_limits<uint32_t>::max();
  uint32_t count = 0;
  for (uint32_t e = states_[state].first_edge; e != kNone; e = edges_[e].next) {
    const Node& to = states_[edges_[e].to];
    if (to.first_end >= first) continue;
    first = to.first_end;
    count = std::max(to.count, 1u);
    best = {edges_[e].to, edges_[e].token, 0};
  }
  if (best.to != kNone) best.share = count / total(state);
  return best;
}

SuffixAutomaton::Step SuffixAutomaton::most_frequent(State state) const {
  Step best;
  uint32_t most = 0, first = 0;
  for (uint32_t e = states_[state].first_edge; e != kNone; e = edges_[e].next) {
    const Node& to = states_[edges_[e].to];
    const uint32_t count = std::max(to.count, 1u);
    if (count < most || (count == most && to.first_end >= first)) continue;
    most = count;
    first = to.first_end;
    best = {edges_[e].to, edges_[e].token, 0};
  }
  if (best.to != kNone) best.share = most / total(state);
  return best;
}

}  // namespace tenon::suffix
