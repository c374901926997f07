#include <utility>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/interpreter.h"
#include "core/jinja/run/operators.h"

namespace tenon::chat {
namespace {

// One more level of nesting while it lives.
class Nesting {
 public:
  Nesting(uint32_t& level, Budget& budget) : level_(level) {
    if (++level_ > budget.limits().nesting) budget.exceed("levels of nesting");
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --level_; }

 private:
  uint32_t& level_;
};

}  // namespace

Result<Value> Interpreter::evaluate(const Expression& expression) {
  const Nesting nesting(nesting_, budget_);
  TENON_RETURN_IF_ERROR(step());
  Result<Value> value = evaluate_kind(expression);
  if (!value.ok()) return located(expression.at, value.take_status());
  return value;
}

Result<Value> Interpreter::evaluate_kind(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::constant:
      return expression.constant;
    case ExpressionKind::name:
      return evaluate_name(expression);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
      return evaluate_items(expression);
    case ExpressionKind::dict:
      return evaluate_dict(expression);
    case ExpressionKind::attribute: {
      TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*expression.parts[0]));
      return attribute_of(value, expression.name);
    }
    case ExpressionKind::subscript: {
      TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*expression.parts[0]));
      TENON_ASSIGN_OR_RETURN(const Value key, evaluate(*expression.parts[1]));
      return item_of(value, key);
    }
    case ExpressionKind::slice:
      return evaluate_slice(expression);
    case ExpressionKind::call:
      return evaluate_call(expression, nullptr);
    case ExpressionKind::filter:
      return evaluate_filter(expression, nullptr);
    case ExpressionKind::test:
      return evaluate_test(expression);
    case ExpressionKind::negate:
    case ExpressionKind::plus: {
      TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*expression.parts[0]));
      if (expression.kind == ExpressionKind::negate) return negated(value);
      if (!value.is_number()) return type_error("a number", value);
      return value.is_boolean() ? Value(value.whole()) : value;
    }
    case ExpressionKind::logical_not:
    case ExpressionKind::logical_and:
    case ExpressionKind::logical_or:
      return evaluate_logical(expression);
    case ExpressionKind::binary: {
      TENON_ASSIGN_OR_RETURN(const Value left, evaluate(*expression.parts[0]));
      TENON_ASSIGN_OR_RETURN(const Value right, evaluate(*expression.parts[1]));
      return apply_operator(expression.operations[0], left, right, budget_);
    }
    case ExpressionKind::comparison:
      return evaluate_comparison(expression);
    case ExpressionKind::concat:
      return evaluate_concat(expression);
    case ExpressionKind::conditional:
      return evaluate_conditional(expression);
  }
  return internal("an expression of no kind");
}

Result<Value> Interpreter::evaluate_name(const Expression& expression) {
  if (const Value* value = scope_->find(expression.symbol)) return *value;
  if (const Function* function = find_function(expression.name)) return Value(function);
  return make_undefined(in_quotes(expression.name) + " is undefined");
}

Result<Value> Interpreter::evaluate_items(const Expression& expression) {
  Values items;
  for (const auto& part : expression.parts) {
    TENON_ASSIGN_OR_RETURN(Value item, evaluate(*part));
    items.push_back(std::move(item));
  }
  const bool is_tuple = expression.kind == ExpressionKind::tuple;
  return list(std::move(items), is_tuple ? ListKind::tuple : ListKind::list);
}

Result<Value> Interpreter::evaluate_dict(const Expression& expression) {
  std::vector<Dict::Item> items;
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    TENON_ASSIGN_OR_RETURN(Value key, evaluate(*expression.parts[i]));
    if (!can_be_key(key)) return type_error("a key", key);
    TENON_ASSIGN_OR_RETURN(Value value, evaluate(*expression.parts[i + 1]));
    items.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(budget_, std::move(items));
}

Result<Value> Interpreter::evaluate_slice(const Expression& expression) {
  TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*expression.parts[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3 && i + 1 < expression.parts.size(); ++i) {
    if (expression.parts[i + 1] == nullptr) continue;
    TENON_ASSIGN_OR_RETURN(bounds[i], evaluate(*expression.parts[i + 1]));
  }
  return slice_of(value, bounds[0], bounds[1], bounds[2], budget_);
}

Status Interpreter::evaluate_arguments(const Expression& call, Arguments& arguments) {
  for (size_t i = 1; i < call.parts.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(Value value, evaluate(*call.parts[i]));
    arguments.positional.push_back(std::move(value));
  }
  if (call.unpacked != nullptr) {
    TENON_ASSIGN_OR_RETURN(const Value source, evaluate(*call.unpacked));
    TENON_ASSIGN_OR_RETURN(Values more, items_of(source));
    for (Value& value : more) arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, part] : call.named) {
    TENON_ASSIGN_OR_RETURN(Value value, evaluate(*part));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call.unpacked_named == nullptr) return Status();
  TENON_ASSIGN_OR_RETURN(const Value source, evaluate(*call.unpacked_named));
  if (source.dict() == nullptr) return type_error("unpacked into named arguments", source);
  for (const auto& [name, value] : source.dict()->items) {
    if (!name.is_text()) return type_error("the name of an argument", name);
    arguments.named.emplace_back(name.bytes(), value);
  }
  budget_.spend(source.dict()->items.size());
  return Status();
}

Result<Value> Interpreter::evaluate_call(const Expression& expression, const Value* caller) {
  TENON_ASSIGN_OR_RETURN(const Value callee, evaluate(*expression.parts[0]));
  Arguments arguments;
  TENON_RETURN_IF_ERROR(evaluate_arguments(expression, arguments));
  const Nesting nesting(nesting_, budget_);
  TENON_RETURN_IF_ERROR(step());
  return call(callee, arguments, caller);
}

// `input` is what the innermost of a block's filters works on.
Result<Value> Interpreter::evaluate_filter(const Expression& expression, const Value* input) {
  if (expression.filter == nullptr) return unsupported(no_such_filter(expression.name));
  Value value;
  const Expression* inner = expression.parts[0].get();
  if (inner == nullptr) {
    value = *input;
  } else if (inner->kind == ExpressionKind::filter && input != nullptr) {
    TENON_ASSIGN_OR_RETURN(value, evaluate_filter(*inner, input));
  } else {
    TENON_ASSIGN_OR_RETURN(value, evaluate(*inner));
  }
  Arguments arguments;
  TENON_RETURN_IF_ERROR(evaluate_arguments(expression, arguments));
  return expression.filter->run(*this, value, arguments);
}

Result<Value> Interpreter::evaluate_test(const Expression& expression) {
  if (expression.test == nullptr) return unsupported(no_such_test(expression.name));
  TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*expression.parts[0]));
  Arguments arguments;
  TENON_RETURN_IF_ERROR(evaluate_arguments(expression, arguments));
  TENON_ASSIGN_OR_RETURN(const bool holds, expression.test->run(*this, value, arguments));
  return Value(holds);
}

// a < b < c compares each pair, and stops at the first that does not hold.
Result<Value> Interpreter::evaluate_comparison(const Expression& expression) {
  TENON_ASSIGN_OR_RETURN(Value left, evaluate(*expression.parts[0]));
  for (size_t i = 0; i < expression.operations.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(Value right, evaluate(*expression.parts[i + 1]));
    TENON_ASSIGN_OR_RETURN(const bool holds,
                           compare_values(expression.operations[i], left, right, budget_));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// `and` and `or` give one of their operands, not its truth.
Result<Value> Interpreter::evaluate_logical(const Expression& expression) {
  TENON_ASSIGN_OR_RETURN(Value left, evaluate(*expression.parts[0]));
  if (expression.kind == ExpressionKind::logical_not) return Value(!is_true(left));
  const bool decides_when = expression.kind == ExpressionKind::logical_or;
  if (is_true(left) == decides_when) return left;
  return evaluate(*expression.parts[1]);
}

Result<Value> Interpreter::evaluate_concat(const Expression& expression) {
  TextBuilder out(budget_);
  for (const auto& part : expression.parts) {
    TENON_ASSIGN_OR_RETURN(const Value value, evaluate(*part));
    TENON_RETURN_IF_ERROR(add_text(value, out));
  }
  return text(out.take());
}

Result<Value> Interpreter::evaluate_conditional(const Expression& expression) {
  TENON_ASSIGN_OR_RETURN(const Value condition, evaluate(*expression.parts[1]));
  if (is_true(condition)) return evaluate(*expression.parts[0]);
  if (expression.parts[2] != nullptr) return evaluate(*expression.parts[2]);
  return make_undefined("a condition without 'else' did not hold, so the value is undefined");
}

}  // namespace tenon::chat
