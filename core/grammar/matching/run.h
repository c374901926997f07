// Runs of characters that a configuration takes in any order: inside of a word, a name, a string of
// limited length. What consists of nothing but them needs no walk, and what has none of the
// characters that may end the run cannot be anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/grammar/automaton/ascii_set.h"
#include "core/grammar/automaton/automaton.h"
#include "core/grammar/matching/machine.h"

namespace tenon::grammar {

struct Run {
  AsciiSet characters;  // `others`: all beyond ASCII as well
  uint32_t most = 0;    // so many may follow at least, up to the number that was asked for
  // Bytes that may follow somewhere on the way and are none of these; `others`: any beyond ASCII,
  // where `characters` has none of them.
  AsciiSet ways_out;
  // Where each of them leads, from wherever on the way; once each.
  struct Exit {
    uint8_t byte = 0;
    ConfigId target = kDeadConfig;
    bool operator==(const Exit&) const = default;
  };
  std::vector<Exit> exits;
  // Of `characters`, those that lead elsewhere, or nowhere, where they come first.
  AsciiSet elsewhere;
};

// The run that begins at `from`, as far as `most` characters. Absent where letters lead to so many
// places that it would not help.
std::optional<Run> find_run(Machine& machine, const Automaton& automaton, ConfigId from,
                            uint32_t most);

// The bytes that may follow.
AsciiSet following_bytes(Machine& machine, ConfigId config);

}  // namespace tenon::grammar
