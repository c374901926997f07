// What the parser makes of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/jinja/syntax/lexer.h"
#include "core/jinja/value.h"

namespace tenon::chat {

struct Filter;
struct Test;

using Symbol = uint32_t;  // a name, numbered

enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  constant,
  name,
  list,
  tuple,
  dict,       // parts: key, value, key, value …
  attribute,  // parts[0].name
  subscript,  // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]]; a part may be null
  call,       // parts[0](parts[1] …, named)
  filter,     // parts[0] | filter(parts[1] …, named); parts[0] is null for a block's text
  test,       // parts[0] is test(parts[1] …, named)
  negate,
  plus,
  logical_not,
  logical_and,
  logical_or,
  binary,      // parts[0] operation parts[1]
  comparison,  // parts[0] operations[0] parts[1] operations[1] …
  concat,      // all parts as text
  conditional  // parts[0] if parts[1] else parts[2]; which may be null
};

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  Position at;
  uint32_t depth = 1;  // of the tree below
  Value constant;
  Symbol symbol = 0;
  std::string name;  // of a name, an attribute, a filter, a test
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpacked;        // f(*items): more positional arguments
  ExpressionPtr unpacked_named;  // f(**items)
  std::vector<Operator> operations;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

// What is assigned to: a name, an attribute of a namespace, or several of them.
struct Target {
  Position at;
  Symbol symbol = 0;
  std::string name;
  std::string attribute;      // empty: the name itself
  std::vector<Target> parts;  // not empty, or is_tuple: the items of a sequence
  bool is_tuple = false;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind {
  data,
  output,
  conditional,
  loop,
  assign,
  assign_block,
  macro,
  call_block,
  filter_block,
  with,
  generation,
  break_loop,
  continue_loop
};

struct Parameters {
  std::vector<Target> names;
  std::vector<ExpressionPtr> defaults;  // of the last ones
  bool takes_positional = false;        // the body reads `varargs`
  bool takes_named = false;             // the body reads `kwargs`
  bool takes_caller = false;            // the body reads `caller`
};

struct Statement {
  StatementKind kind = StatementKind::data;
  Position at;
  Value text;                        // data
  std::vector<ExpressionPtr> parts;  // output: all; conditional: the tests; else what it is about
  std::vector<Statements> bodies;    // conditional: one a test, and that of else
  std::vector<Target> targets;       // of loop, assign, with; the name of a macro
  Parameters parameters;
};

// Every name of a template has a number.
class SymbolTable {
 public:
  Symbol intern(const std::string& name);
  const std::string& name(Symbol symbol) const { return names_[symbol]; }
  // Null when no template text has it.
  const Symbol* find(const std::string& name) const;

 private:
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

struct Template {
  Statements body;
  SymbolTable symbols;
  // What is not known, in parts that not every rendering reaches: "1:23: there is no filter …".
  std::vector<std::string> unknown;
};

}  // namespace tenon::chat
