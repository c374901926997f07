#include <utility>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {
namespace {

// Puts a scope back that a block has pushed, however the block ends.
class ScopeGuard {
 public:
  explicit ScopeGuard(std::shared_ptr<Scope>& scope) : scope_(scope), outer_(scope->parent) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() { scope_ = std::move(outer_); }

 private:
  std::shared_ptr<Scope>& scope_;
  std::shared_ptr<Scope> outer_;
};

}  // namespace

const Value* Scope::find(Symbol symbol) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->names) {
      if (name == symbol) return &value;
    }
  }
  return nullptr;
}

void Scope::set(Symbol symbol, Value value) {
  for (auto& [name, held] : names) {
    if (name == symbol) {
      held = std::move(value);
      return;
    }
  }
  names.emplace_back(symbol, std::move(value));
}

Interpreter::Interpreter(const Template& source, Budget& budget, std::time_t now)
    : template_(source),
      budget_(budget),
      now_(now),
      scope_(std::make_shared<Scope>()),
      root_output_(std::make_unique<TextBuilder>(budget)),
      output_(root_output_.get()) {}

// Values may hold namespaces, and namespaces values: what they hold goes before they do.
Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->attributes.clear();
}

void Interpreter::define(const std::string& name, Value value) {
  if (const Symbol* symbol = template_.symbols.find(name)) scope_->set(*symbol, std::move(value));
}

Status Interpreter::run() {
  TENON_ASSIGN_OR_RETURN(const Flow flow, execute(template_.body));
  (void)flow;
  return budget_.status();
}

Status Interpreter::step() {
  budget_.spend(1);
  return budget_.is_exceeded() ? budget_.status() : Status();
}

// Where an error happened is said once, at the innermost place.
Status Interpreter::located(Position at, Status status) {
  if (status.ok() || std::exchange(is_located_, true)) return status;
  return with_context(to_string(at), status);
}

Result<Flow> Interpreter::execute(const Statements& body) {
  for (const auto& statement : body) {
    Result<Flow> flow = execute(*statement);
    if (!flow.ok()) return located(statement->at, flow.take_status());
    if (*flow != Flow::next) return *flow;
  }
  return Flow::next;
}

Result<Flow> Interpreter::execute(const Statement& statement) {
  TENON_RETURN_IF_ERROR(step());
  switch (statement.kind) {
    case StatementKind::data:
      output_->add(statement.text.text());
      return Flow::next;
    case StatementKind::output:
      for (const auto& part : statement.parts) TENON_RETURN_IF_ERROR(write(*part));
      return Flow::next;
    case StatementKind::conditional:
      return execute_conditional(statement);
    case StatementKind::loop:
      return execute_loop(statement);
    case StatementKind::assign:
      return execute_assign(statement);
    case StatementKind::assign_block:
    case StatementKind::filter_block:
      return execute_capture(statement);
    case StatementKind::macro:
      return execute_macro(statement);
    case StatementKind::call_block:
      return execute_call_block(statement);
    case StatementKind::with:
      return execute_with(statement);
    case StatementKind::generation:
      return execute_generation(statement);
    case StatementKind::break_loop:
      return Flow::break_loop;
    case StatementKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Status Interpreter::write(const Expression& expression) {
  TENON_ASSIGN_OR_RETURN(const Value value, evaluate(expression));
  return add_text(value, *output_);
}

Result<Flow> Interpreter::execute_conditional(const Statement& statement) {
  for (size_t i = 0; i < statement.parts.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Value condition, evaluate(*statement.parts[i]));
    if (is_true(condition)) return execute(statement.bodies[i]);
  }
  if (statement.bodies.size() == statement.parts.size()) return Flow::next;
  return execute(statement.bodies.back());
}

Result<Values> Interpreter::loop_items(const Statement& statement) {
  TENON_ASSIGN_OR_RETURN(const Value source, evaluate(*statement.parts[0]));
  TENON_ASSIGN_OR_RETURN(Values items, items_of(source));
  if (statement.parts.size() == 1) return items;
  Values kept;
  for (Value& item : items) {
    push_scope();
    const ScopeGuard guard(scope_);
    TENON_RETURN_IF_ERROR(assign(statement.targets.front(), item));
    TENON_ASSIGN_OR_RETURN(const Value keep, evaluate(*statement.parts[1]));
    if (is_true(keep)) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Flow> Interpreter::execute_loop(const Statement& statement) {
  TENON_ASSIGN_OR_RETURN(Values items, loop_items(statement));
  const size_t count = items.size();
  if (count == 0) {
    if (statement.bodies.size() < 2) return Flow::next;
    push_scope();
    const ScopeGuard guard(scope_);
    return execute(statement.bodies[1]);
  }
  const auto loop = std::make_shared<LoopState>();
  loop->items = std::make_shared<const List>(ListKind::list, std::move(items), &budget_);
  const Symbol* name = template_.symbols.find("loop");
  for (; loop->index < count; ++loop->index) {
    push_scope();
    const ScopeGuard guard(scope_);
    if (name != nullptr) scope_->set(*name, loop);
    TENON_RETURN_IF_ERROR(assign(statement.targets.front(), loop->items->items[loop->index]));
    TENON_ASSIGN_OR_RETURN(const Flow flow, execute(statement.bodies[0]));
    if (flow == Flow::break_loop) break;
  }
  return Flow::next;
}

Status Interpreter::assign(const Target& target, Value value) {
  if (target.is_tuple) {
    TENON_ASSIGN_OR_RETURN(Values items, items_of(value));
    if (items.size() != target.parts.size()) {
      return invalid_argument(std::to_string(items.size()) + " values cannot be given to " +
                              std::to_string(target.parts.size()) + " names");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      TENON_RETURN_IF_ERROR(assign(target.parts[i], std::move(items[i])));
    }
    return Status();
  }
  if (target.attribute.empty()) {
    scope_->set(target.symbol, std::move(value));
    return Status();
  }
  const Value* holder = scope_->find(target.symbol);
  if (holder == nullptr || holder->space() == nullptr) {
    return invalid_argument(in_quotes(target.name) + " is no namespace; only a namespace's " +
                            "attributes can be set");
  }
  if (target.attribute.starts_with('_')) {
    return invalid_argument("the attribute " + in_quotes(target.attribute) +
                            " of a namespace begins with an underscore, which is not allowed");
  }
  holder->space()->set(target.attribute, std::move(value));
  return Status();
}

Result<Flow> Interpreter::execute_assign(const Statement& statement) {
  TENON_ASSIGN_OR_RETURN(Value value, evaluate(*statement.parts.front()));
  TENON_RETURN_IF_ERROR(assign(statement.targets.front(), std::move(value)));
  return Flow::next;
}

Result<Value> Interpreter::capture(const Statements& body, Flow& flow) {
  TextBuilder captured(budget_);
  TextBuilder* outer = std::exchange(output_, &captured);
  Result<Flow> ended = execute(body);
  output_ = outer;
  if (!ended.ok()) return ended.take_status();
  flow = *ended;
  return text(captured.take());
}

// What the body writes goes through the filters, and into a name or out. The body has names of its
// own.
Result<Flow> Interpreter::execute_capture(const Statement& statement) {
  Flow flow = Flow::next;
  Value value;
  {
    push_scope();
    const ScopeGuard guard(scope_);
    TENON_ASSIGN_OR_RETURN(value, capture(statement.bodies.front(), flow));
  }
  // A loop that is left from inside leaves the text behind.
  if (flow != Flow::next) return flow;
  if (!statement.parts.empty()) {
    TENON_ASSIGN_OR_RETURN(value, evaluate_filter(*statement.parts.front(), &value));
  }
  if (statement.kind == StatementKind::assign_block) {
    TENON_RETURN_IF_ERROR(assign(statement.targets.front(), std::move(value)));
  } else {
    TENON_RETURN_IF_ERROR(add_text(value, *output_));
  }
  return Flow::next;
}

Result<Flow> Interpreter::execute_macro(const Statement& statement) {
  const Target& name = statement.targets.front();
  scope_->set(name.symbol, std::make_shared<const Macro>(Macro{name.name, &statement, scope_}));
  return Flow::next;
}

Result<Flow> Interpreter::execute_call_block(const Statement& statement) {
  const Value caller = std::make_shared<const Macro>(Macro{"caller", &statement, scope_});
  TENON_ASSIGN_OR_RETURN(const Value value, evaluate_call(*statement.parts.front(), &caller));
  TENON_RETURN_IF_ERROR(add_text(value, *output_));
  return Flow::next;
}

// All values are made before the first name is set.
Result<Flow> Interpreter::execute_with(const Statement& statement) {
  Values values;
  for (const auto& part : statement.parts) {
    TENON_ASSIGN_OR_RETURN(Value value, evaluate(*part));
    values.push_back(std::move(value));
  }
  push_scope();
  const ScopeGuard guard(scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    TENON_RETURN_IF_ERROR(assign(statement.targets[i], std::move(values[i])));
  }
  return execute(statement.bodies.front());
}

// The span is counted from what the template itself has written so far, as transformers does, also
// where the block stands inside of a macro.
Result<Flow> Interpreter::execute_generation(const Statement& statement) {
  Flow flow = Flow::next;
  push_scope();
  const ScopeGuard guard(scope_);
  TENON_ASSIGN_OR_RETURN(const Value value, capture(statement.bodies.front(), flow));
  const size_t begin = root_output_->size();
  generations_.push_back({begin, begin + value.bytes().size()});
  output_->add(value.text());
  return Flow::next;
}

}  // namespace tenon::chat
