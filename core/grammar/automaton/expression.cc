#include "core/grammar/automaton/expression.h"

#include <utility>

namespace tenon::grammar {

ExprId Expressions::add(Expr expr) {
  parts_ += expr.parts.size() + expr.bytes.size() + expr.codes.ranges().size();
  if (is_full_ || all_.size() >= kMost || parts_ >= 8 * kMost) {
    is_full_ = true;
    if (all_.empty()) all_.emplace_back();
    return 0;
  }
  all_.push_back(std::move(expr));
  return static_cast<ExprId>(all_.size() - 1);
}

ExprId Expressions::nothing() {
  return add({});
}

ExprId Expressions::literal(std::string_view bytes) {
  Expr expr;
  expr.op = Op::literal;
  expr.bytes = bytes;
  return add(std::move(expr));
}

ExprId Expressions::character(CodeSet codes) {
  if (codes.empty()) return nothing();
  Expr expr;
  expr.op = Op::character;
  expr.codes = std::move(codes);
  return add(std::move(expr));
}

ExprId Expressions::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  Expr expr;
  expr.op = Op::sequence;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId Expressions::choice(std::vector<ExprId> parts) {
  if (parts.empty()) return nothing();
  if (parts.size() == 1) return parts.front();
  Expr expr;
  expr.op = Op::choice;
  expr.parts = std::move(parts);
  return add(std::move(expr));
}

ExprId Expressions::repeat(ExprId part, uint32_t least, uint32_t most) {
  if (most == 0) return empty();
  if (least == 1 && most == 1) return part;
  Expr expr;
  expr.op = Op::repeat;
  expr.parts = {part};
  expr.least = least;
  expr.most = most;
  return add(std::move(expr));
}

ExprId Expressions::automaton(std::shared_ptr<const ByteAutomaton> automaton) {
  Expr expr;
  expr.op = Op::automaton;
  expr.automaton = std::move(automaton);
  return add(std::move(expr));
}

ExprId Expressions::counted(std::shared_ptr<const CountedAutomaton> counted) {
  Expr expr;
  expr.op = Op::counted;
  expr.counted = std::move(counted);
  return add(std::move(expr));
}

RuleId Expressions::add_rule(std::string name) {
  rules_.push_back({std::move(name), 0, false});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Expressions::define(RuleId rule, ExprId body) {
  rules_[rule].body = body;
  rules_[rule].defined = true;
}

ExprId Expressions::rule(RuleId rule) {
  Expr expr;
  expr.op = Op::rule;
  expr.rule = rule;
  return add(std::move(expr));
}

}  // namespace tenon::grammar
