// Patterns over letters in place of characters: characters that no part of a pattern tells apart
// are one letter. What patterns have in common needs a state for a letter then, not for each byte
// of each of its characters.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/grammar/automaton/byte_automaton.h"
#include "core/grammar/automaton/counted_automaton.h"
#include "core/grammar/automaton/expression.h"

namespace tenon::grammar {

class Alphabet {
 public:
  // Of all characters in `patterns`, which are raw and have no rules. Error: unsupported, they are
  // told apart in too many ways.
  static Result<Alphabet> of(const Expressions& patterns);

  size_t size() const { return letters_.size(); }
  // Every character there is belongs to a letter.
  bool is_complete() const { return is_complete_; }
  // The letters of a set that one of the patterns has, as code points from 0 on.
  const CodeSet& letters_of(const CodeSet& codes) const { return by_set_.at(ranges_of(codes)); }
  // The characters of these letters.
  CodeSet codes_of(std::span<const CodeRange> letters) const;

 private:
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;
  static Ranges ranges_of(const CodeSet& codes);

  std::vector<std::vector<CodeRange>> letters_;
  std::map<Ranges, CodeSet> by_set_;
  bool is_complete_ = false;
};

// The same patterns with letters in place of characters; expressions keep their numbers.
Expressions in_letters(const Expressions& patterns, const Alphabet& alphabet);
// An automaton over letters as nodes whose edges read a character each, as it stands in JSON
// strings; the texts of edges are added to `expressions`. Nodes from which any text is accepted
// become one.
CountedNodes in_characters(const ByteAutomaton& automaton, const Alphabet& alphabet,
                           Expressions& expressions);

}  // namespace tenon::grammar
