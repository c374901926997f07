// What every automaton must hold before it is used.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/grammar/automaton/automaton.h"

namespace tenon::grammar {

// What may be empty is repeated so often at most.
constexpr uint32_t kMostEmptyRounds = 64;

// The rule that begins at a state, in quotes.
using RuleNames = std::function<std::string(uint32_t state)>;

// Takes ways out that never come to an end. Error: invalid_argument, nothing is left.
Status drop_dead_ends(Automaton& automaton);
// Errors: invalid_argument (a rule calls itself before it reads anything), unsupported (calls
// before anything is read are nested too deep, or something that may be empty is counted too far).
Status check_recursion(const Automaton& automaton, const RuleNames& name_of);

}  // namespace tenon::grammar
