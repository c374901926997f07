// Names, constants, and what stands in brackets.
#include <charconv>

#include "core/base/quote.h"
#include "core/jinja/read_number.h"
#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {
namespace {

Value constant_text(std::string text) {
  return std::make_shared<const TextObject>(MarkedText(std::move(text), true), nullptr);
}

}  // namespace

ParsedExpression Parser::parse_primary() {
  const Token& token = stream_.current();
  if (token.kind == TokenKind::name) return parse_name();
  if (token.kind == TokenKind::text) return parse_string();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return parse_number();
  if (stream_.is_symbol("[")) return parse_list();
  if (stream_.is_symbol("{")) return parse_dict();
  if (!stream_.skip_symbol("(")) return stream_.unexpected("an expression");
  TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_tuple(true, true));
  TENON_RETURN_IF_ERROR(stream_.expect_symbol(")"));
  return value;
}

ParsedExpression Parser::parse_name() {
  const Token token = stream_.next();
  ExpressionPtr made = make(ExpressionKind::constant, token.at);
  if (token.text == "true" || token.text == "True") {
    made->constant = true;
  } else if (token.text == "false" || token.text == "False") {
    made->constant = false;
  } else if (token.text == "none" || token.text == "None") {
    made->constant = None();
  } else {
    made->kind = ExpressionKind::name;
    made->name = token.text;
    made->symbol = result_.symbols.intern(token.text);
    if (macro_ != nullptr) {
      macro_->takes_caller |= token.text == "caller";
      macro_->takes_named |= token.text == "kwargs";
      macro_->takes_positional |= token.text == "varargs";
    }
  }
  return made;
}

ParsedExpression Parser::parse_number() {
  const Token token = stream_.next();
  ExpressionPtr made = make(ExpressionKind::constant, token.at);
  if (token.kind == TokenKind::integer) {
    const int base = token.text.size() > 1 ? base_of_sign(token.text[1]) : 10;
    const Result<std::optional<Integer>> number = read_whole(token.text, base);
    if (number.ok() && *number) {
      made->constant = **number;
      return made;
    }
  } else {
    double number = 0;
    const char* end = token.text.data() + token.text.size();
    const auto read = std::from_chars(token.text.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end) {
      made->constant = number;
      return made;
    }
  }
  return unsupported(to_string(token.at) + ": the number " + in_quotes(token.text, 80) +
                     " is out of range – expected one that 128 bits hold – write it as a text");
}

ParsedExpression Parser::parse_string() {
  Token token = stream_.next();
  while (stream_.is(TokenKind::text)) token.text += stream_.next().text;
  ExpressionPtr made = make(ExpressionKind::constant, token.at);
  made->constant = constant_text(std::move(token.text));
  return made;
}

ParsedExpression Parser::parse_list() {
  ExpressionPtr made = make(ExpressionKind::list, stream_.next().at);
  while (!stream_.is_symbol("]")) {
    if (!made->parts.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    if (stream_.is_symbol("]")) break;
    TENON_ASSIGN_OR_RETURN(ExpressionPtr item, parse_expression());
    made->parts.push_back(std::move(item));
  }
  stream_.next();
  return checked(std::move(made));
}

ParsedExpression Parser::parse_dict() {
  ExpressionPtr made = make(ExpressionKind::dict, stream_.next().at);
  while (!stream_.is_symbol("}")) {
    if (!made->parts.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    if (stream_.is_symbol("}")) break;
    TENON_ASSIGN_OR_RETURN(ExpressionPtr key, parse_expression());
    TENON_RETURN_IF_ERROR(stream_.expect_symbol(":"));
    TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
    made->parts.push_back(std::move(key));
    made->parts.push_back(std::move(value));
  }
  stream_.next();
  return checked(std::move(made));
}

bool Parser::at_tuple_end() const {
  return stream_.is(TokenKind::variable_end) || stream_.is(TokenKind::block_end) ||
         stream_.is_symbol(")") || stream_.is_name("recursive");
}

ParsedExpression Parser::parse_tuple(bool with_conditional, bool in_parentheses) {
  ExpressionPtr made = make(ExpressionKind::tuple, stream_.current().at);
  bool is_tuple = false;
  while (true) {
    if (!made->parts.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    if (at_tuple_end()) break;
    TENON_ASSIGN_OR_RETURN(ExpressionPtr item, parse_expression(with_conditional));
    made->parts.push_back(std::move(item));
    if (!stream_.is_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !made->parts.empty()) return std::move(made->parts.front());
  if (!is_tuple && !in_parentheses) return stream_.unexpected("an expression");
  return checked(std::move(made));
}

}  // namespace tenon::chat
