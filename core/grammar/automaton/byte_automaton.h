// Deterministic automata over bytes: what two languages have in common is built with them.
#pragma once

#include <memory>

#include "core/grammar/automaton/automaton.h"

namespace tenon::grammar {

constexpr size_t kMostNodes = 30'000;

// Of an expression without recursion. Error: unsupported, more than kMostNodes are needed.
Result<std::shared_ptr<const ByteAutomaton>> determinise(const Expressions& expressions, ExprId id);
// What both accept; nothing that leads nowhere is left. Error: as above.
Result<std::shared_ptr<const ByteAutomaton>> intersect(const ByteAutomaton& a,
                                                       const ByteAutomaton& b);

}  // namespace tenon::grammar
