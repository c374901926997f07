// Compiles an input as a grammar of some kind, and follows it for a while: whatever it is, it is
// refused in words, or every text that it lets begin can go on or is whole.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/grammar/automaton/automaton.h"
#include "core/grammar/grammar.h"
#include "core/grammar/matching/machine.h"

namespace tenon::grammar {

inline void compile_and_walk(GrammarKind kind, std::string_view text) {
  const auto compiled = compile({kind, std::string(text)});
  if (!compiled.ok()) {
    if (compiled.status().message().empty()) std::abort();
    return;
  }
  Machine machine((*compiled)->automaton());
  ConfigId here = machine.start();
  uint32_t random = 2463534242u ^ static_cast<uint32_t>(text.size());
  for (int step = 0; step < 200 && machine.work() < 200'000; ++step) {
    // The first byte that may follow, from a random one on.
    random = random * 1664525u + 1013904223u;
    ConfigId next = kDeadConfig;
    for (uint32_t i = 0; i < 256 && next == kDeadConfig; ++i) {
      next = machine.step(here, static_cast<uint8_t>((random >> 24) + i));
    }
    if (machine.take_overflow()) return;
    if (next == kDeadConfig) {
      if (!machine.accepts(here)) std::abort();
      return;
    }
    here = next;
  }
}

}  // namespace tenon::grammar
