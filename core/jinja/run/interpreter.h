// Walks a template and writes what it says. statements.cc has the statements, evaluate.cc the
// expressions, calls.cc what is called.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/jinja/budget.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/syntax/syntax.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// The names of one block and where the blocks around it are. Macros look into the scope that they
// were made in, at the time of the call.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> names;

  const Value* find(Symbol symbol) const;
  void set(Symbol symbol, Value value);
};

struct Macro {
  std::string name;
  const Statement* statement;  // its parameters and its first body
  std::weak_ptr<Scope> scope;  // a macro lives no longer than the block that it stands in
};

struct LoopState {
  std::shared_ptr<const List> items;
  size_t index = 0;
};

enum class Flow { next, break_loop, continue_loop };

// A stretch of the output that a generation block wrote.
struct OutputSpan {
  size_t begin = 0;
  size_t end = 0;
};

class Interpreter {
 public:
  // Everything outlives it. `now` is what strftime_now shows.
  Interpreter(const Template& source, Budget& budget, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void define(const std::string& name, Value value);
  Status run();
  MarkedText take_output() { return output_->take(); }
  std::vector<OutputSpan> take_generations() { return std::move(generations_); }

  // For what templates call.
  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  // The same sequence in every rendering.
  uint64_t next_random() {
    // Knuth's linear congruential generator; its high bits are the good ones.
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return random_ >> 33;
  }
  Value text(MarkedText text) { return make_text(budget_, std::move(text)); }
  Value text(std::string_view text) { return make_text(budget_, std::string(text), true); }
  Value list(Values items, ListKind kind = ListKind::list) {
    return make_list(budget_, std::move(items), kind);
  }
  Result<Value> make_namespace(const Arguments& arguments);
  // `value[key]` and `value.name`, which look at items and at methods in opposite order. What is
  // not there is undefined.
  Result<Value> item_of(const Value& value, const Value& key);
  Result<Value> attribute_of(const Value& value, std::string_view name);
  // "a.b.0", as filters take it; `otherwise`, if any, stands in for what is not there on the way.
  Result<Value> path_of(const Value& value, std::string_view path,
                        const Value* otherwise = nullptr);
  // The items of whatever can be iterated over; takes those of a generator.
  Result<Values> items_of(const Value& value);
  Result<Value> call(const Value& callee, const Arguments& arguments, const Value* caller);

 private:
  // statements.cc
  Result<Flow> execute(const Statements& body);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> execute_conditional(const Statement& statement);
  Result<Flow> execute_loop(const Statement& statement);
  Result<Flow> execute_assign(const Statement& statement);
  Result<Flow> execute_capture(const Statement& statement);
  Result<Flow> execute_macro(const Statement& statement);
  Result<Flow> execute_call_block(const Statement& statement);
  Result<Flow> execute_with(const Statement& statement);
  Result<Flow> execute_generation(const Statement& statement);
  Result<Values> loop_items(const Statement& statement);
  // What a body writes, as a text.
  Result<Value> capture(const Statements& body, Flow& flow);
  Status write(const Expression& expression);
  Status assign(const Target& target, Value value);

  // evaluate.cc
  Result<Value> evaluate(const Expression& expression);
  Result<Value> evaluate_kind(const Expression& expression);
  Result<Value> evaluate_name(const Expression& expression);
  Result<Value> evaluate_items(const Expression& expression);
  Result<Value> evaluate_dict(const Expression& expression);
  Result<Value> evaluate_slice(const Expression& expression);
  Result<Value> evaluate_call(const Expression& expression, const Value* caller);
  Result<Value> evaluate_filter(const Expression& expression, const Value* input);
  Result<Value> evaluate_test(const Expression& expression);
  Result<Value> evaluate_comparison(const Expression& expression);
  Result<Value> evaluate_logical(const Expression& expression);
  Result<Value> evaluate_concat(const Expression& expression);
  Result<Value> evaluate_conditional(const Expression& expression);
  Status evaluate_arguments(const Expression& call, Arguments& arguments);
  Result<Value> character_of(const Value& value, Integer index);

  // calls.cc
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments, const Value* caller);
  Status bind_macro(const Macro& macro, const Arguments& arguments, const Value* caller);
  Result<std::vector<const Value*>> macro_values(const Macro& macro, const Arguments& arguments,
                                                 Arguments& rest);

  Status step();  // counts one; error once a limit is reached
  Status located(Position at, Status status);
  void push_scope() { scope_ = std::make_shared<Scope>(Scope{std::move(scope_), {}}); }

  const Template& template_;
  Budget& budget_;
  std::time_t now_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::shared_ptr<Scope> scope_;
  std::unique_ptr<TextBuilder> root_output_;
  TextBuilder* output_;
  std::vector<OutputSpan> generations_;
  uint64_t random_ = 0;
  uint32_t nesting_ = 0;
  bool is_located_ = false;
};

}  // namespace tenon::chat
