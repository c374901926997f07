// What follows a value: attributes, items, calls, filters and tests.
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {

ParsedExpression Parser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (stream_.is_symbol(".")) {
      TENON_ASSIGN_OR_RETURN(value, parse_attribute(std::move(value)));
    } else if (stream_.is_symbol("[")) {
      TENON_ASSIGN_OR_RETURN(value, parse_subscript(std::move(value)));
    } else if (stream_.is_symbol("(")) {
      TENON_ASSIGN_OR_RETURN(value, parse_call(std::move(value)));
    } else {
      return value;
    }
  }
}

ParsedExpression Parser::parse_filters(ExpressionPtr value) {
  while (true) {
    if (stream_.is_symbol("|")) {
      TENON_ASSIGN_OR_RETURN(value, parse_filter(std::move(value)));
    } else if (stream_.is_name("is")) {
      TENON_ASSIGN_OR_RETURN(value, parse_test(std::move(value)));
    } else if (stream_.is_symbol("(")) {
      TENON_ASSIGN_OR_RETURN(value, parse_call(std::move(value)));
    } else {
      return value;
    }
  }
}

ParsedExpression Parser::parse_attribute(ExpressionPtr value) {
  const Position at = stream_.next().at;
  const Token token = stream_.next();
  if (token.kind == TokenKind::name) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr made,
                           node(ExpressionKind::attribute, at, std::move(value)));
    made->name = token.text;
    return made;
  }
  if (token.kind != TokenKind::integer || token.text.size() > 9) {
    return invalid_argument(to_string(token.at) + ": unexpected " + in_quotes(token.text) +
                            " – expected a name or a number after '.'");
  }
  ExpressionPtr index = make(ExpressionKind::constant, token.at);
  index->constant = static_cast<Integer>(std::stoi(token.text));
  return node(ExpressionKind::subscript, at, std::move(value), std::move(index));
}

ParsedExpression Parser::parse_subscript(ExpressionPtr value) {
  const Position at = stream_.next().at;
  TENON_ASSIGN_OR_RETURN(ExpressionPtr made, parse_subscript_item(std::move(value), at));
  if (made->kind == ExpressionKind::subscript && stream_.is_symbol(",")) {
    ExpressionPtr keys = make(ExpressionKind::tuple, at);
    keys->parts.push_back(std::move(made->parts[1]));
    while (stream_.skip_symbol(",")) {
      TENON_ASSIGN_OR_RETURN(ExpressionPtr key, parse_expression());
      keys->parts.push_back(std::move(key));
    }
    TENON_ASSIGN_OR_RETURN(made->parts[1], checked(std::move(keys)));
  }
  TENON_RETURN_IF_ERROR(stream_.expect_symbol("]"));
  return made;
}

ParsedExpression Parser::parse_subscript_item(ExpressionPtr value, Position at) {
  ExpressionPtr made = make(ExpressionKind::slice, at);
  made->parts.push_back(std::move(value));
  for (int part = 0; part < 3; ++part) {
    ExpressionPtr bound;
    if (!stream_.is_symbol(":") && !stream_.is_symbol("]")) {
      TENON_ASSIGN_OR_RETURN(bound, parse_expression());
      if (part == 0 && !stream_.is_symbol(":")) {
        made->kind = ExpressionKind::subscript;
        made->parts.push_back(std::move(bound));
        return checked(std::move(made));
      }
    } else if (part == 0 && stream_.is_symbol("]")) {
      return stream_.unexpected("an index");
    }
    made->parts.push_back(std::move(bound));
    if (part < 2 && !stream_.skip_symbol(":")) break;
  }
  return checked(std::move(made));
}

Status Parser::parse_arguments(Expression& call) {
  TENON_RETURN_IF_ERROR(stream_.expect_symbol("("));
  bool is_first = true;
  while (!stream_.is_symbol(")")) {
    if (!is_first) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    is_first = false;
    if (stream_.is_symbol(")")) break;
    const Token& token = stream_.current();
    if (stream_.is_symbol("*") || stream_.is_symbol("**")) {
      ExpressionPtr& place = stream_.is_symbol("*") ? call.unpacked : call.unpacked_named;
      if (place != nullptr || call.unpacked_named != nullptr) {
        return stream_.unexpected("each of '*' and '**' once, in this order");
      }
      stream_.next();
      TENON_ASSIGN_OR_RETURN(place, parse_expression());
      continue;
    }
    const bool is_named = token.kind == TokenKind::name &&
                          stream_.look().kind == TokenKind::symbol && stream_.look().text == "=";
    if (is_named) {
      std::string name = stream_.next().text;
      stream_.next();
      TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
      call.named.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!call.named.empty() || call.unpacked != nullptr || call.unpacked_named != nullptr) {
      return stream_.unexpected("a named argument after named or unpacked ones");
    }
    TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
    call.parts.push_back(std::move(value));
  }
  stream_.next();
  return Status();
}

ParsedExpression Parser::parse_call(ExpressionPtr callee) {
  ExpressionPtr made = make(ExpressionKind::call, callee->at);
  note_called_name(*callee);
  const bool makes_namespace = callee->kind == ExpressionKind::name && callee->name == "namespace";
  made->parts.push_back(std::move(callee));
  TENON_RETURN_IF_ERROR(parse_arguments(*made));
  if (makes_namespace) {
    for (const auto& named : made->named) attributes_.insert(named.first);
  }
  return checked(std::move(made));
}

// Whether a called name exists is known once all of the template is read.
void Parser::note_called_name(const Expression& callee) {
  if (callee.kind == ExpressionKind::name) {
    uses_.push_back({NameUse::Kind::function, callee.name, callee.at});
  }
  if (callee.kind == ExpressionKind::attribute) {
    uses_.push_back({NameUse::Kind::method, callee.name, callee.at});
  }
}

ParsedExpression Parser::parse_filter(ExpressionPtr value) {
  const Position at = stream_.next().at;
  return parse_filter_name(std::move(value), at);
}

ParsedExpression Parser::parse_filter_name(ExpressionPtr value, Position at) {
  TENON_ASSIGN_OR_RETURN(Token name, stream_.expect_name());
  while (stream_.skip_symbol(".")) {
    TENON_ASSIGN_OR_RETURN(const Token more, stream_.expect_name());
    name.text += "." + more.text;
  }
  ExpressionPtr made = make(ExpressionKind::filter, at);
  made->name = name.text;
  made->filter = find_filter(name.text);
  if (made->filter == nullptr) uses_.push_back({NameUse::Kind::filter, name.text, name.at});
  made->parts.push_back(std::move(value));
  if (stream_.is_symbol("(")) TENON_RETURN_IF_ERROR(parse_arguments(*made));
  note_chosen_name(*made);
  return checked(std::move(made));
}

// map('upper'), select('string'), selectattr('role', 'equalto', …): names written out as texts.
void Parser::note_chosen_name(const Expression& filter) {
  const bool is_map = filter.name == "map";
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  if (!is_map && !by_attribute && filter.name != "select" && filter.name != "reject") return;
  const size_t at = by_attribute ? 2 : 1;
  if (filter.parts.size() <= at) return;
  const Expression& chosen = *filter.parts[at];
  if (chosen.kind != ExpressionKind::constant || !chosen.constant.is_text()) return;
  const std::string name(chosen.constant.bytes());
  if (is_map ? find_filter(name) != nullptr : find_test(name) != nullptr) return;
  uses_.push_back({is_map ? NameUse::Kind::filter : NameUse::Kind::test, name, chosen.at});
}

// A test takes one argument without brackets: `is divisibleby 3`.
bool Parser::at_test_argument() const {
  const TokenKind kind = stream_.current().kind;
  if (kind == TokenKind::name) {
    const std::string& name = stream_.current().text;
    return name != "else" && name != "or" && name != "and" && name != "is" && name != "if" &&
           name != "not" && name != "in" && name != "recursive";
  }
  return kind == TokenKind::text || kind == TokenKind::integer || kind == TokenKind::real ||
         stream_.is_symbol("[") || stream_.is_symbol("{");
}

ParsedExpression Parser::parse_test(ExpressionPtr value) {
  const Position at = stream_.next().at;
  const bool is_negated = stream_.skip_name("not");
  TENON_ASSIGN_OR_RETURN(const Token name, stream_.expect_name());
  ExpressionPtr made = make(ExpressionKind::test, at);
  made->name = name.text;
  made->test = find_test(name.text);
  if (made->test == nullptr) uses_.push_back({NameUse::Kind::test, name.text, name.at});
  made->parts.push_back(std::move(value));
  if (stream_.is_symbol("(")) {
    TENON_RETURN_IF_ERROR(parse_arguments(*made));
  } else if (at_test_argument()) {
    TENON_ASSIGN_OR_RETURN(ExpressionPtr argument, parse_primary());
    TENON_ASSIGN_OR_RETURN(argument, parse_postfix(std::move(argument)));
    made->parts.push_back(std::move(argument));
  }
  TENON_ASSIGN_OR_RETURN(made, checked(std::move(made)));
  if (!is_negated) return made;
  return node(ExpressionKind::logical_not, at, std::move(made));
}

}  // namespace tenon::chat
