#include "core/grammar/automaton/automaton_check.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace tenon::grammar {
namespace {

constexpr uint32_t kDeepestCalls = 1000;

// Which states can reach their end: found backwards, from ends to whoever waits for them.
class Productive {
 public:
  explicit Productive(const Automaton& automaton)
      : automaton_(automaton), productive_(automaton.states.size(), false) {}

  std::vector<bool> run() {
    list_waiting();
    for (uint32_t state = 0; state < automaton_.states.size(); ++state) {
      if (automaton_.states[state].kind == StateKind::end) settle(state);
    }
    while (!fresh_.empty()) {
      const uint32_t state = fresh_.back();
      fresh_.pop_back();
      for (uint32_t i = first_[state]; i < first_[state + 1]; ++i) {
        const uint32_t waiting = waiting_[i];
        if (!productive_[waiting] && may_end(waiting)) settle(waiting);
      }
    }
    return std::move(productive_);
  }

 private:
  template <typename Visit>
  void each_successor(const State& state, const Visit& visit) const {
    switch (state.kind) {
      case StateKind::read:
        for (uint32_t i = 0; i < state.b; ++i) visit(automaton_.edges[state.a + i].target);
        break;
      case StateKind::split:
        for (uint32_t i = 0; i < state.b; ++i) visit(automaton_.targets[state.a + i]);
        break;
      case StateKind::call:
        visit(state.a);
        if (state.b != kNoState) visit(state.b);
        break;
      case StateKind::loop:
        visit(automaton_.loops[state.a].body);
        visit(automaton_.loops[state.a].after);
        break;
      case StateKind::begin_count:
        visit(automaton_.counters[state.a].after);
        break;
      case StateKind::arrive:
        visit(automaton_.counters[automaton_.counter_nodes[state.a].counter].after);
        break;
      case StateKind::may_arrive:
        visit(state.b);
        break;
      case StateKind::end:
        break;
    }
  }

  // waiting_[first_[s] … first_[s + 1]) are the states that s is a successor of.
  void list_waiting() {
    first_.assign(automaton_.states.size() + 1, 0);
    for (const State& state : automaton_.states) {
      each_successor(state, [&](uint32_t successor) { ++first_[successor + 1]; });
    }
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    waiting_.resize(first_.back());
    std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
    for (uint32_t state = 0; state < automaton_.states.size(); ++state) {
      each_successor(automaton_.states[state],
                     [&](uint32_t successor) { waiting_[at[successor]++] = state; });
    }
  }

  bool may_end(uint32_t id) const {
    const State& state = automaton_.states[id];
    if (state.kind == StateKind::call) {
      return productive_[state.a] && (state.b == kNoState || productive_[state.b]);
    }
    if (state.kind == StateKind::loop) {
      const Loop& loop = automaton_.loops[state.a];
      return (loop.least == 0 || productive_[loop.body]) && productive_[loop.after];
    }
    if (state.kind == StateKind::begin_count) {
      return automaton_.counters[state.a].counted->is_live(0, 0);
    }
    return true;  // one successor is enough
  }

  void settle(uint32_t state) {
    productive_[state] = true;
    fresh_.push_back(state);
  }

  const Automaton& automaton_;
  std::vector<bool> productive_;
  std::vector<uint32_t> first_, waiting_, fresh_;
};

// Walks what each rule and each loop's body can do before it reads a byte.
class Recursion {
 public:
  Recursion(const Automaton& automaton, const RuleNames& name_of)
      : automaton_(automaton), name_of_(name_of), known_(automaton.states.size(), Known::nothing) {}

  Status run() {
    for (const State& state : automaton_.states) {
      if (state.kind == StateKind::call) TENON_RETURN_IF_ERROR(enter(state.a, 0));
    }
    for (const Loop& loop : automaton_.loops) {
      TENON_RETURN_IF_ERROR(enter(loop.body, 0));
      if (known_[loop.body] == Known::may_be_empty && loop.most > kMostEmptyRounds) {
        return unsupported("something that may be empty is repeated up to " +
                           std::to_string(loop.most) + " times – " +
                           std::to_string(kMostEmptyRounds) +
                           " are possible – let what is repeated have one character at least");
      }
    }
    return enter(automaton_.start, 0);
  }

 private:
  enum class Known : uint8_t { nothing, open, may_be_empty, never_empty };

  // Finds out whether the part that begins at `start` may be empty.
  Status enter(uint32_t start, uint32_t depth) {
    if (known_[start] == Known::open) {
      return invalid_argument(
          "rule " + name_of_(start) +
          " calls itself before it has read anything (left recursion) "
          "– a rule must begin with something else – write the repetition with * or +, or recur on "
          "the right");
    }
    if (known_[start] != Known::nothing) return {};
    if (depth > kDeepestCalls) {
      return unsupported("rules call each other " + std::to_string(depth) +
                         " deep before anything is read – that is the limit – make them simpler");
    }
    known_[start] = Known::open;
    std::vector<uint32_t> stack = {start};
    std::unordered_set<uint32_t> seen = {start};
    bool may_be_empty = false;
    const auto push = [&](uint32_t state) {
      if (seen.insert(state).second) stack.push_back(state);
    };
    while (!stack.empty()) {
      const uint32_t id = stack.back();
      const State& state = automaton_.states[id];
      stack.pop_back();
      uint32_t inner = kNoState, behind = kNoState;
      bool skips = false;
      switch (state.kind) {
        case StateKind::read:
          break;
        case StateKind::end:
          may_be_empty = true;
          break;
        case StateKind::split:
          for (uint32_t i = 0; i < state.b; ++i) push(automaton_.targets[state.a + i]);
          break;
        case StateKind::call:
          inner = state.a;
          behind = state.b;
          break;
        case StateKind::loop:
          inner = automaton_.loops[state.a].body;
          behind = automaton_.loops[state.a].after;
          skips = automaton_.loops[state.a].least == 0;
          break;
        case StateKind::begin_count: {
          const Counter& counter = automaton_.counters[state.a];
          if (counter.counted->nodes()[0].accepts && counter.counted->least() == 0) {
            push(counter.after);
          }
          break;
        }
        case StateKind::arrive:
        case StateKind::may_arrive:
          break;  // something was read
      }
      if (inner == kNoState) continue;
      TENON_RETURN_IF_ERROR(enter(inner, depth + 1));
      if (!skips && known_[inner] != Known::may_be_empty) continue;
      if (behind == kNoState) {
        may_be_empty = true;
      } else {
        push(behind);
      }
    }
    known_[start] = may_be_empty ? Known::may_be_empty : Known::never_empty;
    return {};
  }

  const Automaton& automaton_;
  const RuleNames& name_of_;
  std::vector<Known> known_;
};

}  // namespace

Status drop_dead_ends(Automaton& automaton) {
  const std::vector<bool> productive = Productive(automaton).run();
  if (!productive[automaton.start]) {
    return invalid_argument(
        "nothing satisfies the grammar – at least one text must – look for parts that exclude each "
        "other, or rules that never end");
  }
  for (State& state : automaton.states) {
    if (state.kind == StateKind::read) {
      const auto begin = automaton.edges.begin() + state.a;
      state.b = static_cast<uint32_t>(
          std::remove_if(begin, begin + state.b,
                         [&](const Edge& edge) { return !productive[edge.target]; }) -
          begin);
    } else if (state.kind == StateKind::split) {
      const auto begin = automaton.targets.begin() + state.a;
      state.b = static_cast<uint32_t>(
          std::remove_if(begin, begin + state.b,
                         [&](uint32_t target) { return !productive[target]; }) -
          begin);
    } else if (state.kind == StateKind::loop && !productive[automaton.loops[state.a].body]) {
      automaton.loops[state.a].most = 0;
    }
  }
  return {};
}

Status check_recursion(const Automaton& automaton, const RuleNames& name_of) {
  return Recursion(automaton, name_of).run();
}

}  // namespace tenon::grammar
