// The parser: expressions (parse_expression.cc, parse_primary.cc, parse_postfix.cc), statements
// (parse_statement.cc) and what they give values to (parse_target.cc).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/jinja/syntax/syntax.h"
#include "core/jinja/syntax/token_stream.h"

namespace tenon::chat {

// Of blocks, and of brackets around targets.
inline constexpr uint32_t kDeepestBlocks = 100;

// Sets a value and puts the old one back at the end.
template <typename T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), old_(std::exchange(place, value)) {}
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() { place_ = old_; }

 private:
  T& place_;
  T old_;
};

using ParsedExpression = Result<ExpressionPtr>;

// A name that the template calls or tests with.
struct NameUse {
  enum class Kind : uint8_t { filter, test, function, method };
  Kind kind;
  std::string name;
  Position at;
  bool is_reached = true;  // by every rendering
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)) {}
  Result<Template> run();

 private:
  // parse_expression.cc, parse_primary.cc and parse_postfix.cc
  ParsedExpression parse_expression(bool with_conditional = true);
  ParsedExpression parse_or();
  ParsedExpression parse_and();
  ParsedExpression parse_not();
  ParsedExpression parse_comparison();
  ParsedExpression parse_sum();
  ParsedExpression parse_concat();
  ParsedExpression parse_product();
  ParsedExpression parse_power();
  ParsedExpression parse_unary(bool with_filter = true);
  ParsedExpression parse_primary();
  ParsedExpression parse_name();
  ParsedExpression parse_number();
  ParsedExpression parse_string();
  ParsedExpression parse_list();
  ParsedExpression parse_dict();
  ParsedExpression parse_postfix(ExpressionPtr node);
  ParsedExpression parse_filters(ExpressionPtr node);
  ParsedExpression parse_attribute(ExpressionPtr node);
  ParsedExpression parse_subscript(ExpressionPtr node);
  ParsedExpression parse_subscript_item(ExpressionPtr node, Position at);
  ParsedExpression parse_call(ExpressionPtr node);
  ParsedExpression parse_filter(ExpressionPtr node);
  // After the '|', or after the tag `filter`.
  ParsedExpression parse_filter_name(ExpressionPtr node, Position at);
  ParsedExpression parse_test(ExpressionPtr node);
  Status parse_arguments(Expression& call);
  // Several expressions with commas are a tuple.
  ParsedExpression parse_tuple(bool with_conditional = true, bool in_parentheses = false);
  bool at_tuple_end() const;
  bool at_test_argument() const;

  // Nodes. An expression that grows too deep is refused.
  ExpressionPtr make(ExpressionKind kind, Position at) const;
  ParsedExpression node(ExpressionKind kind, Position at, ExpressionPtr first,
                        ExpressionPtr second = nullptr);
  ParsedExpression checked(ExpressionPtr node) const;
  void note_called_name(const Expression& callee);
  void note_chosen_name(const Expression& filter);

  // parse_statement.cc and parse_target.cc
  Result<Statements> parse_body(std::initializer_list<std::string_view> ends);
  Status parse_tag(Statements& body);
  Status parse_output(Statements& body);
  Result<std::unique_ptr<Statement>> parse_if(Position at);
  Result<std::unique_ptr<Statement>> parse_for(Position at);
  Result<std::unique_ptr<Statement>> parse_set(Position at);
  Result<std::unique_ptr<Statement>> parse_macro(Position at);
  Result<std::unique_ptr<Statement>> parse_call_block(Position at);
  Result<std::unique_ptr<Statement>> parse_filter_block(Position at);
  Result<std::unique_ptr<Statement>> parse_with(Position at);
  Result<std::unique_ptr<Statement>> parse_print(Position at);
  Result<std::unique_ptr<Statement>> parse_generation(Position at);
  Result<std::unique_ptr<Statement>> parse_loop_control(StatementKind kind, Position at);
  Result<std::unique_ptr<Statement>> refuse_tag(const Token& tag) const;
  Status parse_block(Statement& statement, std::initializer_list<std::string_view> ends);
  Status parse_end(Statement& statement, std::string_view end);
  Status parse_parameters(Parameters& parameters);
  Result<Target> parse_target(bool with_namespace = false);
  Result<Target> parse_one_target(bool with_namespace);
  // Names that are not known are faults where every rendering reaches them.
  Status check_names();
  std::string fault_of(const NameUse& use) const;
  size_t uses() const { return uses_.size(); }
  // The names since then stand where not every rendering comes.
  void may_be_skipped(size_t since);

  Symbol bind(const std::string& name) {
    bound_.insert(name);
    return result_.symbols.intern(name);
  }

  TokenStream stream_;
  Template result_;
  uint32_t nesting_ = 0;     // of expressions and blocks that are open
  uint32_t loop_depth_ = 0;  // of loops that `break` may leave
  // Names that the template gives a value, and those that it uses.
  std::set<std::string, std::less<>> bound_;
  std::set<std::string, std::less<>> attributes_;  // of namespaces
  std::vector<NameUse> uses_;

  Parameters* macro_ = nullptr;  // of the macro that is being parsed
};

}  // namespace tenon::chat
