#include "core/grammar/automaton/counted_automaton.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {
namespace {

constexpr uint64_t kMostEdgeVisits = 50'000'000;  // edges looked at for the table of rounds

}  // namespace

Result<CountedAutomaton> CountedAutomaton::make(CountedNodes graph, uint32_t least, uint32_t most) {
  CountedAutomaton made;
  made.graph_ = std::move(graph);
  made.least_ = least;
  made.most_ = most;
  if (!made.counts() || made.graph_.nodes.empty()) return made;
  made.find_shortest();
  made.find_longest();
  made.farthest_ = *std::max_element(made.shortest_.begin(), made.shortest_.end());
  for (const uint32_t longest : made.longest_) {
    if (longest != kUnbounded) made.longest_of_all_ = std::max(made.longest_of_all_, longest);
  }
  if (most != kUnbounded && most >= least && most - least < made.farthest_) {
    TENON_RETURN_IF_ERROR(made.find_rounds());
  }
  return made;
}

// Backwards from the nodes that accept.
void CountedAutomaton::find_shortest() {
  const auto& nodes = graph_.nodes;
  std::vector<std::vector<uint32_t>> into(nodes.size());
  std::vector<uint32_t> open;
  shortest_.assign(nodes.size(), kUnbounded);
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    for (const auto& edge : nodes[id].edges) into[edge.target].push_back(id);
    if (!nodes[id].accepts) continue;
    shortest_[id] = 0;
    open.push_back(id);
  }
  for (size_t at = 0; at < open.size(); ++at) {
    for (const uint32_t from : into[open[at]]) {
      if (shortest_[from] != kUnbounded) continue;
      shortest_[from] = shortest_[open[at]] + 1;
      open.push_back(from);
    }
  }
}

// Nodes without ways out are settled first, then those whose ways all lead to settled ones; the
// others lead into circles.
void CountedAutomaton::find_longest() {
  const auto& nodes = graph_.nodes;
  std::vector<std::vector<uint32_t>> into(nodes.size());
  std::vector<size_t> left(nodes.size());
  std::vector<uint32_t> open;
  longest_.assign(nodes.size(), kUnbounded);
  for (uint32_t id = 0; id < nodes.size(); ++id) {
    for (const auto& edge : nodes[id].edges) into[edge.target].push_back(id);
    left[id] = nodes[id].edges.size();
    if (left[id] == 0) open.push_back(id);
  }
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    longest_[id] = 0;
    for (const auto& edge : nodes[id].edges) {
      longest_[id] = std::max(longest_[id], longest_[edge.target] + 1);
    }
    for (const uint32_t from : into[id]) {
      if (--left[from] == 0) open.push_back(from);
    }
  }
}

// After[q] is how far the nearest end is from the nodes that are exactly `round` edges away from
// q. As one round follows from the one before, they repeat once one has been there (Brent 1980).
Status CountedAutomaton::find_rounds() {
  const auto& nodes = graph_.nodes;
  const uint32_t window = most_ - least_, too_far = window + 1;
  size_t edges = nodes.size();
  for (const auto& node : nodes) edges += node.edges.size();
  std::vector<uint32_t> behind = shortest_;
  for (uint32_t& distance : behind) distance = std::min(distance, too_far);
  std::vector<uint32_t> kept = behind, next(nodes.size());
  size_t kept_round = 0;
  for (size_t round = 0; round <= least_; ++round) {
    if (round > 0 && behind == kept) {
      repeats_from_ = kept_round;
      return {};
    }
    if (round == 2 * kept_round + 1) {
      kept = behind;
      kept_round = round;
    }
    if ((round + 1) * edges > kMostEdgeVisits) {
      return unsupported(
          "the lengths that the pattern can have come round too late to be counted – widen "
          "minLength and maxLength, or make the pattern simpler");
    }
    std::vector<uint64_t>& live = rounds_.emplace_back((nodes.size() + 63) / 64, 0);
    for (uint32_t id = 0; id < nodes.size(); ++id) {
      if (behind[id] <= window) live[id / 64] |= uint64_t{1} << (id % 64);
      next[id] = too_far;
      for (const auto& edge : nodes[id].edges) next[id] = std::min(next[id], behind[edge.target]);
    }
    behind.swap(next);
  }
  repeats_from_ = rounds_.size();
  return {};
}

// Far from both bounds every node can reach an end, or just those that lead into circles.
uint32_t CountedAutomaton::alike(uint32_t count, uint32_t horizon) const {
  if (count >= least_) {
    const bool is_far = most_ == kUnbounded || most_ - count >= uint64_t{farthest_} + horizon;
    return is_far ? least_ : count;
  }
  const bool is_far = least_ - count > uint64_t{longest_of_all_} + horizon;
  return rounds_.empty() && is_far ? 0 : count;
}

bool CountedAutomaton::is_live(uint32_t node, uint32_t count) const {
  if (count > most_) return false;
  if (count >= least_) return most_ == kUnbounded || shortest_[node] <= most_ - count;
  const uint32_t missing = least_ - count;
  if (rounds_.empty()) return longest_[node] >= missing;
  size_t round = missing;
  if (round >= rounds_.size()) {
    round = repeats_from_ + (round - repeats_from_) % (rounds_.size() - repeats_from_);
  }
  return ((rounds_[round][node / 64] >> (node % 64)) & 1) != 0;
}

}  // namespace tenon::grammar
