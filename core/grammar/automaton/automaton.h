// The one form that all grammars are compiled into: a pushdown automaton over bytes.
//
// States of a rule are an NFA; a call pushes the state to return to, a counted repetition pushes
// how often it has run, a counted automaton how many of its edges were taken. Every state can reach
// the end of its rule, so what has a configuration left (core/grammar/matching/machine.h) can be
// completed. No rule calls itself without having read a byte.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/automaton/counted_automaton.h"
#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {

constexpr uint32_t kNoState = UINT32_MAX;

enum class StateKind : uint8_t {
  read,         // a byte: edges [a, a + b)
  split,        // goes to each of targets [a, a + b)
  call,         // enters state a; returns to b, or where this rule returns to (kNoState)
  loop,         // enters loop a
  end,          // of a rule, or of a loop's body
  begin_count,  // enters counter a at its first node
  arrive,       // at node a of the counter on top of the stack, by one edge more
  may_arrive,   // goes to b where node a could still be arrived at, by one edge more
};

// How much text of plain_characters() a state takes without further ado.
enum class FreeText : uint8_t {
  none = 0,
  unbounded = 1,
  counted = 2,  // one character each time the loop on top of the stack runs
  limited = 3,  // as many as the counter on top of the stack still allows
};

struct State {
  StateKind kind = StateKind::split;
  FreeText free_text = FreeText::none;
  uint32_t a = 0, b = 0;
};
struct Edge {
  uint8_t first = 0, last = 0;
  uint32_t target = 0;
};
struct Loop {
  uint32_t body = 0;   // its states end in a state of kind `end`
  uint32_t after = 0;  // where it goes on
  uint32_t least = 0, most = 0;
};

// A counted automaton among the states.
struct Counter {
  std::shared_ptr<const CountedAutomaton> counted;
  uint32_t first_node = 0;  // in counter_nodes
  uint32_t after = 0;       // where it goes on
};
struct CounterNode {
  uint32_t counter = 0;
  uint32_t node = 0;   // of the counted automaton
  uint32_t entry = 0;  // a split between its edges
};

class Automaton {
 public:
  std::vector<State> states;
  std::vector<Edge> edges;
  std::vector<uint32_t> targets;
  std::vector<Loop> loops;
  std::vector<Counter> counters;
  std::vector<CounterNode> counter_nodes;
  uint32_t start = 0;
  // Bytes that no edge tells apart are one class.
  std::array<uint8_t, 256> class_of{};
  uint32_t classes = 1;
  std::array<uint8_t, 256> byte_of_class{};
};

// A deterministic automaton without a stack, for what is built by intersection. State 0 starts.
struct ByteAutomaton {
  struct Node {
    std::vector<Edge> edges;  // sorted, apart
    bool accepts = false;
  };
  std::vector<Node> nodes;  // none: accepts nothing
};

// Errors: invalid_argument (nothing satisfies it, a rule calls itself before it reads anything),
// unsupported (too large).
Result<std::unique_ptr<Automaton>> build_automaton(const Expressions& expressions, ExprId root);

}  // namespace tenon::grammar
