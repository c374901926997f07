#include <algorithm>
#include <optional>

#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {
namespace {

// Of one expression's tree. Sums and chains of attributes grow it by one for each link.
constexpr uint32_t kDeepestExpression = 200;

std::optional<Operator> comparison_operator(const TokenStream& stream) {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::equal},      {"!=", Operator::unequal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater},  {">=", Operator::greater_equal}};
  if (!stream.is(TokenKind::symbol)) return std::nullopt;
  for (const auto& [symbol, operation] : kOperators) {
    if (stream.current().text == symbol) return operation;
  }
  return std::nullopt;
}

}  // namespace

ExpressionPtr Parser::make(ExpressionKind kind, Position at) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->at = at;
  return made;
}

ParsedExpression Parser::checked(ExpressionPtr made) const {
  uint32_t deepest = 0;
  for (const auto& part : made->parts) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  }
  for (const auto& named : made->named) deepest = std::max(deepest, named.second->depth);
  for (const auto* more : {made->unpacked.get(), made->unpacked_named.get()}) {
    if (more != nullptr) deepest = std::max(deepest, more->depth);
  }
  made->depth = deepest + 1;
  if (made->depth > kDeepestExpression) {
    return invalid_argument(to_string(made->at) + ": an expression is nested deeper than " +
                            std::to_string(kDeepestExpression) + " levels");
  }
  return made;
}

ParsedExpression Parser::node(ExpressionKind kind, Position at, ExpressionPtr first,
                              ExpressionPtr second) {
  ExpressionPtr made = make(kind, at);
  made->parts.push_back(std::move(first));
  if (second != nullptr) made->parts.push_back(std::move(second));
  return checked(std::move(made));
}

ParsedExpression Parser::parse_expression(bool with_conditional) {
  const Position at = stream_.current().at;
  if (++nesting_ > kDeepestExpression) {
    return invalid_argument(to_string(at) + ": expressions and blocks are nested deeper than " +
                            std::to_string(kDeepestExpression) + " levels");
  }
  const size_t first_use = uses();
  TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_or());
  while (with_conditional && stream_.skip_name("if")) {
    ExpressionPtr made = make(ExpressionKind::conditional, at);
    made->parts.push_back(std::move(value));
    TENON_ASSIGN_OR_RETURN(ExpressionPtr condition, parse_or());
    made->parts.push_back(std::move(condition));
    ExpressionPtr otherwise;
    if (stream_.skip_name("else")) {
      TENON_ASSIGN_OR_RETURN(otherwise, parse_expression());
    }
    made->parts.push_back(std::move(otherwise));
    TENON_ASSIGN_OR_RETURN(value, checked(std::move(made)));
    may_be_skipped(first_use);
  }
  --nesting_;
  return value;
}

ParsedExpression Parser::parse_or() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr left, parse_and());
  while (stream_.skip_name("or")) {
    const size_t first_use = uses();
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_and());
    may_be_skipped(first_use);
    TENON_ASSIGN_OR_RETURN(left,
                           node(ExpressionKind::logical_or, at, std::move(left), std::move(right)));
  }
  return left;
}

ParsedExpression Parser::parse_and() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr left, parse_not());
  while (stream_.skip_name("and")) {
    const size_t first_use = uses();
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_not());
    may_be_skipped(first_use);
    TENON_ASSIGN_OR_RETURN(
        left, node(ExpressionKind::logical_and, at, std::move(left), std::move(right)));
  }
  return left;
}

ParsedExpression Parser::parse_not() {
  const Position at = stream_.current().at;
  uint32_t count = 0;
  while (stream_.skip_name("not")) ++count;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_comparison());
  for (; count > 0; --count) {
    TENON_ASSIGN_OR_RETURN(value, node(ExpressionKind::logical_not, at, std::move(value)));
  }
  return value;
}

ParsedExpression Parser::parse_comparison() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr first, parse_sum());
  ExpressionPtr made = make(ExpressionKind::comparison, at);
  made->parts.push_back(std::move(first));
  while (true) {
    std::optional<Operator> operation = comparison_operator(stream_);
    if (operation) {
      stream_.next();
    } else if (stream_.skip_name("in")) {
      operation = Operator::in;
    } else if (stream_.is_name("not") && stream_.look().kind == TokenKind::name &&
               stream_.look().text == "in") {
      stream_.next();
      stream_.next();
      operation = Operator::not_in;
    } else {
      break;
    }
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_sum());
    made->operations.push_back(*operation);
    made->parts.push_back(std::move(right));
  }
  if (made->operations.empty()) return std::move(made->parts.front());
  return checked(std::move(made));
}

ParsedExpression Parser::parse_sum() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr left, parse_concat());
  while (stream_.is_symbol("+") || stream_.is_symbol("-")) {
    const bool adds = stream_.next().text == "+";
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_concat());
    TENON_ASSIGN_OR_RETURN(left,
                           node(ExpressionKind::binary, at, std::move(left), std::move(right)));
    left->operations = {adds ? Operator::add : Operator::subtract};
  }
  return left;
}

ParsedExpression Parser::parse_concat() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr first, parse_product());
  if (!stream_.is_symbol("~")) return first;
  ExpressionPtr made = make(ExpressionKind::concat, at);
  made->parts.push_back(std::move(first));
  while (stream_.skip_symbol("~")) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr more, parse_product());
    made->parts.push_back(std::move(more));
  }
  return checked(std::move(made));
}

ParsedExpression Parser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::multiply},
      {"/", Operator::divide},
      {"//", Operator::floor_divide},
      {"%", Operator::modulo}};
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr left, parse_power());
  while (stream_.is(TokenKind::symbol)) {
    const auto* found =
        std::find_if(std::begin(kOperators), std::end(kOperators),
                     [&](auto& entry) { return entry.first == stream_.current().text; });
    if (found == std::end(kOperators)) break;
    stream_.next();
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_power());
    TENON_ASSIGN_OR_RETURN(left,
                           node(ExpressionKind::binary, at, std::move(left), std::move(right)));
    left->operations = {found->second};
  }
  return left;
}

// As Jinja has it, a power groups from the left.
ParsedExpression Parser::parse_power() {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr left, parse_unary());
  while (stream_.skip_symbol("**")) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr right, parse_unary());
    TENON_ASSIGN_OR_RETURN(left,
                           node(ExpressionKind::binary, at, std::move(left), std::move(right)));
    left->operations = {Operator::power};
  }
  return left;
}

ParsedExpression Parser::parse_unary(bool with_filter) {
  const Position at = stream_.current().at;
  std::vector<ExpressionKind> signs;
  while (stream_.is_symbol("-") || stream_.is_symbol("+")) {
    signs.push_back(stream_.next().text == "-" ? ExpressionKind::negate : ExpressionKind::plus);
  }
  TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_primary());
  TENON_ASSIGN_OR_RETURN(value, parse_postfix(std::move(value)));
  for (; !signs.empty(); signs.pop_back()) {
    TENON_ASSIGN_OR_RETURN(value, node(signs.back(), at, std::move(value)));
  }
  return with_filter ? parse_filters(std::move(value)) : ParsedExpression(std::move(value));
}

}  // namespace tenon::chat
