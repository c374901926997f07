#include "core/grammar/automaton/byte_automaton.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/grammar/matching/machine.h"

namespace tenon::grammar {
namespace {

constexpr uint64_t kMostWork = 5'000'000;

Status too_large() {
  return unsupported("what patterns, or the bounds of a number, have in common needs more than " +
                     std::to_string(kMostNodes) +
                     " states – that is the limit – make them simpler or shorter");
}

void add_edge(ByteAutomaton::Node& node, uint8_t first, uint8_t last, uint32_t target) {
  if (!node.edges.empty()) {
    Edge& before = node.edges.back();
    if (before.target == target && before.last + 1 == first) {
      before.last = last;
      return;
    }
  }
  node.edges.push_back({first, last, target});
}

// Keeps the nodes that lead to an accepting one; 0 stays 0.
ByteAutomaton without_dead_ends(ByteAutomaton automaton) {
  std::vector<std::vector<uint32_t>> into(automaton.nodes.size());
  std::vector<uint32_t> open;
  std::vector<bool> live(automaton.nodes.size(), false);
  for (uint32_t id = 0; id < automaton.nodes.size(); ++id) {
    for (const Edge& edge : automaton.nodes[id].edges) into[edge.target].push_back(id);
    if (!automaton.nodes[id].accepts) continue;
    live[id] = true;
    open.push_back(id);
  }
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    for (const uint32_t from : into[id]) {
      if (live[from]) continue;
      live[from] = true;
      open.push_back(from);
    }
  }
  if (automaton.nodes.empty() || !live[0]) return {};
  std::vector<uint32_t> place(automaton.nodes.size(), 0);
  ByteAutomaton kept;
  for (uint32_t id = 0; id < automaton.nodes.size(); ++id) {
    if (!live[id]) continue;
    place[id] = static_cast<uint32_t>(kept.nodes.size());
    kept.nodes.push_back(std::move(automaton.nodes[id]));
  }
  for (ByteAutomaton::Node& node : kept.nodes) {
    std::erase_if(node.edges, [&](const Edge& edge) { return !live[edge.target]; });
    for (Edge& edge : node.edges) edge.target = place[edge.target];
  }
  return kept;
}

}  // namespace

Result<std::shared_ptr<const ByteAutomaton>> determinise(const Expressions& expressions,
                                                         ExprId id) {
  Result<std::unique_ptr<Automaton>> built = build_automaton(expressions, id);
  if (!built.ok() && built.status().code() == StatusCode::invalid_argument) {
    return std::make_shared<const ByteAutomaton>();  // nothing satisfies it
  }
  if (!built.ok()) return built.take_status();
  const Automaton& automaton = **built;
  Machine machine(automaton);
  ByteAutomaton made;
  std::vector<ConfigId> configs = {machine.start()};
  std::unordered_map<ConfigId, uint32_t> places = {{machine.start(), 0}};
  for (uint32_t at = 0; at < configs.size(); ++at) {
    ByteAutomaton::Node& node = made.nodes.emplace_back();
    node.accepts = machine.accepts(configs[at]);
    for (uint32_t byte_class = 0; byte_class < automaton.classes; ++byte_class) {
      const uint8_t first = automaton.byte_of_class[byte_class];
      const auto last = static_cast<uint8_t>(
          byte_class + 1 < automaton.classes ? automaton.byte_of_class[byte_class + 1] - 1 : 255);
      const ConfigId next = machine.step(configs[at], first);
      if (next == kDeadConfig) continue;
      const auto [place, is_new] = places.try_emplace(next, static_cast<uint32_t>(configs.size()));
      if (is_new) configs.push_back(next);
      add_edge(node, first, last, place->second);
    }
    if (configs.size() > kMostNodes || machine.work() > kMostWork || machine.take_overflow()) {
      return too_large();
    }
  }
  return std::make_shared<const ByteAutomaton>(std::move(made));
}

Result<std::shared_ptr<const ByteAutomaton>> intersect(const ByteAutomaton& a,
                                                       const ByteAutomaton& b) {
  if (a.nodes.empty() || b.nodes.empty()) return std::make_shared<const ByteAutomaton>();
  ByteAutomaton made;
  std::vector<std::pair<uint32_t, uint32_t>> pairs = {{0, 0}};
  std::unordered_map<uint64_t, uint32_t> places = {{0, 0}};
  for (uint32_t at = 0; at < pairs.size(); ++at) {
    const ByteAutomaton::Node &left = a.nodes[pairs[at].first], &right = b.nodes[pairs[at].second];
    ByteAutomaton::Node& node = made.nodes.emplace_back();
    node.accepts = left.accepts && right.accepts;
    auto x = left.edges.begin(), y = right.edges.begin();
    while (x != left.edges.end() && y != right.edges.end()) {
      const uint8_t first = std::max(x->first, y->first), last = std::min(x->last, y->last);
      if (first <= last) {
        const auto [place, is_new] = places.try_emplace(uint64_t{x->target} << 32 | y->target,
                                                        static_cast<uint32_t>(pairs.size()));
        if (is_new) pairs.emplace_back(x->target, y->target);
        add_edge(node, first, last, place->second);
      }
      ++(x->last < y->last ? x : y);
    }
    if (pairs.size() > kMostNodes) return too_large();
  }
  return std::make_shared<const ByteAutomaton>(without_dead_ends(std::move(made)));
}

}  // namespace tenon::grammar
