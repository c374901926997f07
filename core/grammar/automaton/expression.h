// A language of byte strings as a graph of expressions: what schemas, patterns and GBNF are parsed
// into, and what an automaton is built from. Expressions may share parts; rules may recur.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/automaton/code_set.h"

namespace tenon::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;

constexpr uint32_t kUnbounded = UINT32_MAX;

struct ByteAutomaton;
class CountedAutomaton;

enum class Op : uint8_t {
  nothing,    // no string at all
  literal,    // `bytes`
  character,  // one character of `codes`, in UTF-8
  sequence,   // of `parts`
  choice,     // between `parts`
  repeat,     // `parts[0]`, `least` to `most` times
  rule,       // what `rule` is defined as
  automaton,  // what `automaton` accepts
  counted,    // what `counted` accepts
};

struct Expr {
  Op op = Op::nothing;
  std::string bytes;
  CodeSet codes;
  std::vector<ExprId> parts;
  uint32_t least = 0, most = 0;
  RuleId rule = 0;
  std::shared_ptr<const ByteAutomaton> automaton;
  std::shared_ptr<const CountedAutomaton> counted;  // its texts are of the same expressions
};

struct Rule {
  std::string name;  // for messages
  ExprId body = 0;
  bool defined = false;
};

class Expressions {
 public:
  // Beyond it nothing is added any more and is_full() says so: parsers go on, compile() refuses.
  static constexpr size_t kMost = 400'000;

  ExprId nothing();
  ExprId empty() { return literal(""); }
  ExprId literal(std::string_view bytes);
  ExprId character(CodeSet codes);
  ExprId character(std::string_view one_of) { return character(CodeSet::of(one_of)); }
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  ExprId repeat(ExprId part, uint32_t least, uint32_t most);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId any_number(ExprId part) { return repeat(part, 0, kUnbounded); }
  ExprId automaton(std::shared_ptr<const ByteAutomaton> automaton);
  ExprId counted(std::shared_ptr<const CountedAutomaton> counted);

  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId body);
  ExprId rule(RuleId rule);

  const Expr& operator[](ExprId id) const { return all_[id]; }
  const Rule& rule_at(RuleId id) const { return rules_[id]; }
  size_t size() const { return all_.size(); }
  size_t rules() const { return rules_.size(); }
  bool is_full() const { return is_full_; }

 private:
  ExprId add(Expr expr);

  std::vector<Expr> all_;
  std::vector<Rule> rules_;
  size_t parts_ = 0;
  bool is_full_ = false;
};

}  // namespace tenon::grammar
