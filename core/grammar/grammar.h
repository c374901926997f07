// What an answer may look like: a JSON Schema, a regular expression or a GBNF grammar, compiled
// into one form (a pushdown automaton over bytes) that core/grammar/matcher.h walks token by token.
//
// The whole answer is meant, from its first byte to its last: a pattern is anchored at both ends.
// docs/structured-output.md lists what is supported of each kind; what is not is refused by name,
// with its place in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::grammar {

enum class GrammarKind : uint8_t {
  json_schema = 0,  // the text is a schema, as JSON
  json_object = 1,  // any JSON object; the text is empty
  regex = 2,
  gbnf = 3,  // as llama.cpp reads it; the rule `root` is the answer
};
// "json_schema", "json_object", "regex", "gbnf".
std::string_view grammar_kind_name(GrammarKind kind);
std::optional<GrammarKind> grammar_kind_of(std::string_view name);

// Any text before what a grammar describes, up to and including `closes`, which comes once;
// white space may follow it. For models that think before they answer. Special tokens are meant by
// special_bytes() (core/grammar/vocabulary.h) and stand nowhere else in it.
struct Preface {
  std::string opens;  // begins it, and it may be left out; empty: it has begun, and has to end
  std::string closes;

  bool operator==(const Preface&) const = default;
};

struct GrammarSpec {
  GrammarKind kind = GrammarKind::json_object;
  std::string text;
  std::optional<Preface> preface = {};

  bool operator==(const GrammarSpec&) const = default;
};

class Automaton;

// A compiled grammar. Immutable, any number of threads may use one at the same time: requests with
// the same grammar share it.
class Grammar {
 public:
  Grammar(GrammarSpec spec, std::unique_ptr<const Automaton> automaton,
          std::vector<std::string> notes = {});
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  const GrammarSpec& spec() const { return spec_; }
  const Automaton& automaton() const { return *automaton_; }
  // What of a schema is ignored, in a sentence each: whoever wrote it should hear of it.
  const std::vector<std::string>& notes() const { return notes_; }
  // Of the automaton, for reports.
  size_t states() const;

 private:
  GrammarSpec spec_;
  std::unique_ptr<const Automaton> automaton_;
  std::vector<std::string> notes_;
};

// Takes milliseconds at most for grammars of usual size: call it off the step thread. Time and
// memory are bounded by limits on the text and on the automaton's states.
// Errors: invalid_argument (the text is malformed, or nothing satisfies it), unsupported (a part of
// it that is not supported, named with its place; or a limit is reached).
Result<std::shared_ptr<const Grammar>> compile(GrammarSpec spec);

}  // namespace tenon::grammar
