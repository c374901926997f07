#include <utility>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/syntax/parser.h"
#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {
namespace {

using StatementPtr = std::unique_ptr<Statement>;

constexpr size_t kLongestTemplate = size_t{4} << 20;

StatementPtr make_statement(StatementKind kind, Position at) {
  auto made = std::make_unique<Statement>();
  made->kind = kind;
  made->at = at;
  return made;
}

}  // namespace

Result<Template> parse_template(std::string_view source) {
  if (source.size() > kLongestTemplate) {
    return unsupported("the chat template has " + approximate_bytes(source.size()) + " – at most " +
                       approximate_bytes(kLongestTemplate) + " are supported");
  }
  TENON_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize_template(source));
  return Parser(std::move(tokens)).run();
}

Result<Template> Parser::run() {
  TENON_ASSIGN_OR_RETURN(result_.body, parse_body({}));
  TENON_RETURN_IF_ERROR(check_names());
  return std::move(result_);
}

// Up to a tag of one of these names, which stays current; with none, up to the end.
Result<Statements> Parser::parse_body(std::initializer_list<std::string_view> ends) {
  Statements body;
  while (!stream_.is(TokenKind::end)) {
    if (stream_.is(TokenKind::data)) {
      Token data = stream_.next();
      StatementPtr made = make_statement(StatementKind::data, data.at);
      made->text =
          std::make_shared<const TextObject>(MarkedText(std::move(data.text), true), nullptr);
      body.push_back(std::move(made));
      continue;
    }
    if (stream_.is(TokenKind::variable_begin)) {
      TENON_RETURN_IF_ERROR(parse_output(body));
      continue;
    }
    stream_.next();
    for (const std::string_view end : ends) {
      if (stream_.is_name(end)) return body;
    }
    TENON_RETURN_IF_ERROR(parse_tag(body));
    TENON_RETURN_IF_ERROR(stream_.expect(TokenKind::block_end, "'%}'"));
  }
  if (ends.size() == 0) return body;
  return invalid_argument(to_string(stream_.current().at) + ": the template ends before '{% " +
                          std::string(*(ends.end() - 1)) + " %}'");
}

Status Parser::parse_output(Statements& body) {
  StatementPtr made = make_statement(StatementKind::output, stream_.next().at);
  TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_tuple());
  made->parts.push_back(std::move(value));
  body.push_back(std::move(made));
  return stream_.expect(TokenKind::variable_end, "'}}'");
}

Status Parser::parse_tag(Statements& body) {
  TENON_ASSIGN_OR_RETURN(const Token tag, stream_.expect_name());
  if (nesting_ >= kDeepestBlocks) {
    return invalid_argument(to_string(tag.at) + ": blocks are nested deeper than " +
                            std::to_string(kDeepestBlocks) + " levels");
  }
  Restored<uint32_t> nesting(nesting_, nesting_ + 1);
  const auto parse = [&]() -> Result<StatementPtr> {
    if (tag.text == "if") return parse_if(tag.at);
    if (tag.text == "for") return parse_for(tag.at);
    if (tag.text == "set") return parse_set(tag.at);
    if (tag.text == "macro") return parse_macro(tag.at);
    if (tag.text == "call") return parse_call_block(tag.at);
    if (tag.text == "filter") return parse_filter_block(tag.at);
    if (tag.text == "with") return parse_with(tag.at);
    if (tag.text == "print") return parse_print(tag.at);
    if (tag.text == "generation") return parse_generation(tag.at);
    if (tag.text == "break") return parse_loop_control(StatementKind::break_loop, tag.at);
    if (tag.text == "continue") return parse_loop_control(StatementKind::continue_loop, tag.at);
    return refuse_tag(tag);
  };
  TENON_ASSIGN_OR_RETURN(StatementPtr made, parse());
  body.push_back(std::move(made));
  return Status();
}

Result<StatementPtr> Parser::refuse_tag(const Token& tag) const {
  static const std::vector<std::string> kTags = {"if",   "for",  "set",        "macro", "call",
                                                 "raw",  "with", "generation", "break", "continue",
                                                 "else", "elif", "filter"};
  if (tag.text.starts_with("end") || tag.text == "else" || tag.text == "elif") {
    return invalid_argument(to_string(tag.at) + ": the tag " + in_quotes(tag.text) +
                            " ends a block that is not open");
  }
  return unsupported(to_string(tag.at) + ": there is no tag " + in_quotes(tag.text) +
                     " in chat templates" + did_you_mean(tag.text, kTags));
}

// The rest of the tag and the body up to one of `ends`, whose name is taken.
Status Parser::parse_block(Statement& statement, std::initializer_list<std::string_view> ends) {
  stream_.skip_symbol(":");
  TENON_RETURN_IF_ERROR(stream_.expect(TokenKind::block_end, "'%}'"));
  TENON_ASSIGN_OR_RETURN(Statements body, parse_body(ends));
  statement.bodies.push_back(std::move(body));
  return Status();
}

Status Parser::parse_end(Statement& statement, std::string_view end) {
  TENON_RETURN_IF_ERROR(parse_block(statement, {end}));
  stream_.next();
  return Status();
}

Result<StatementPtr> Parser::parse_if(Position at) {
  StatementPtr made = make_statement(StatementKind::conditional, at);
  size_t first_use = 0;
  while (true) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr condition, parse_tuple(/*with_conditional=*/false));
    made->parts.push_back(std::move(condition));
    // All but the first condition.
    if (made->parts.size() == 1) first_use = uses();
    TENON_RETURN_IF_ERROR(parse_block(*made, {"elif", "else", "endif"}));
    const Token end = stream_.next();
    if (end.text == "elif") continue;
    if (end.text == "else") TENON_RETURN_IF_ERROR(parse_end(*made, "endif"));
    may_be_skipped(first_use);
    return made;
  }
}

Result<StatementPtr> Parser::parse_for(Position at) {
  StatementPtr made = make_statement(StatementKind::loop, at);
  TENON_ASSIGN_OR_RETURN(Target target, parse_target());
  made->targets.push_back(std::move(target));
  if (!stream_.skip_name("in")) return stream_.unexpected("'in'");
  TENON_ASSIGN_OR_RETURN(ExpressionPtr items, parse_tuple(/*with_conditional=*/false));
  made->parts.push_back(std::move(items));
  const size_t first_use = uses();
  if (stream_.skip_name("if")) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr condition, parse_expression());
    made->parts.push_back(std::move(condition));
  }
  if (stream_.is_name("recursive")) {
    return unsupported(to_string(stream_.current().at) +
                       ": recursive loops are not supported – write a macro that calls itself");
  }
  ++loop_depth_;
  TENON_RETURN_IF_ERROR(parse_block(*made, {"else", "endfor"}));
  --loop_depth_;
  if (stream_.next().text == "else") TENON_RETURN_IF_ERROR(parse_end(*made, "endfor"));
  may_be_skipped(first_use);
  return made;
}

Result<StatementPtr> Parser::parse_set(Position at) {
  StatementPtr made = make_statement(StatementKind::assign, at);
  TENON_ASSIGN_OR_RETURN(Target target, parse_target(/*with_namespace=*/true));
  made->targets.push_back(std::move(target));
  if (stream_.skip_symbol("=")) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_tuple());
    made->parts.push_back(std::move(value));
    return made;
  }
  made->kind = StatementKind::assign_block;
  ExpressionPtr filters;
  while (stream_.is_symbol("|")) {
    TENON_ASSIGN_OR_RETURN(filters, parse_filter(std::move(filters)));
  }
  if (filters != nullptr) made->parts.push_back(std::move(filters));
  TENON_RETURN_IF_ERROR(parse_end(*made, "endset"));
  return made;
}

Result<StatementPtr> Parser::parse_macro(Position at) {
  StatementPtr made = make_statement(StatementKind::macro, at);
  TENON_ASSIGN_OR_RETURN(Target name, parse_one_target(/*with_namespace=*/false));
  made->targets.push_back(std::move(name));
  Restored<Parameters*> macro(macro_, &made->parameters);
  Restored<uint32_t> loops(loop_depth_, 0);
  const size_t first_use = uses();
  TENON_RETURN_IF_ERROR(parse_parameters(made->parameters));
  for (const char* const implied : {"caller", "varargs", "kwargs"}) {
    result_.symbols.intern(implied);
  }
  TENON_RETURN_IF_ERROR(parse_end(*made, "endmacro"));
  may_be_skipped(first_use);
  return made;
}

Result<StatementPtr> Parser::parse_call_block(Position at) {
  StatementPtr made = make_statement(StatementKind::call_block, at);
  if (stream_.is_symbol("(")) TENON_RETURN_IF_ERROR(parse_parameters(made->parameters));
  TENON_ASSIGN_OR_RETURN(ExpressionPtr call, parse_expression());
  if (call->kind != ExpressionKind::call) {
    return invalid_argument(to_string(at) + ": expected a call after 'call'");
  }
  made->parts.push_back(std::move(call));
  Restored<uint32_t> loops(loop_depth_, 0);
  result_.symbols.intern("caller");
  const size_t first_use = uses();
  TENON_RETURN_IF_ERROR(parse_end(*made, "endcall"));
  may_be_skipped(first_use);
  return made;
}

Result<StatementPtr> Parser::parse_filter_block(Position at) {
  StatementPtr made = make_statement(StatementKind::filter_block, at);
  TENON_ASSIGN_OR_RETURN(ExpressionPtr filters, parse_filter_name(nullptr, at));
  while (stream_.is_symbol("|")) {
    TENON_ASSIGN_OR_RETURN(filters, parse_filter(std::move(filters)));
  }
  made->parts.push_back(std::move(filters));
  TENON_RETURN_IF_ERROR(parse_end(*made, "endfilter"));
  return made;
}

Result<StatementPtr> Parser::parse_with(Position at) {
  StatementPtr made = make_statement(StatementKind::with, at);
  while (!stream_.is(TokenKind::block_end)) {
    if (!made->targets.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    TENON_ASSIGN_OR_RETURN(Target target, parse_one_target(/*with_namespace=*/false));
    made->targets.push_back(std::move(target));
    TENON_RETURN_IF_ERROR(stream_.expect_symbol("="));
    TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
    made->parts.push_back(std::move(value));
  }
  TENON_RETURN_IF_ERROR(parse_end(*made, "endwith"));
  return made;
}

// Each value by itself, without anything between them.
Result<StatementPtr> Parser::parse_print(Position at) {
  StatementPtr made = make_statement(StatementKind::output, at);
  while (!stream_.is(TokenKind::block_end)) {
    if (!made->parts.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
    made->parts.push_back(std::move(value));
  }
  return made;
}

Result<StatementPtr> Parser::parse_generation(Position at) {
  StatementPtr made = make_statement(StatementKind::generation, at);
  Restored<uint32_t> loops(loop_depth_, 0);
  TENON_RETURN_IF_ERROR(parse_end(*made, "endgeneration"));
  return made;
}

Result<StatementPtr> Parser::parse_loop_control(StatementKind kind, Position at) {
  if (loop_depth_ == 0) {
    return invalid_argument(to_string(at) + ": 'break' and 'continue' stand outside of a loop");
  }
  return make_statement(kind, at);
}

}  // namespace tenon::chat
