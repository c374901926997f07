// The tokens of a template, one after the other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/quote.h"
#include "core/jinja/syntax/lexer.h"

namespace tenon::chat {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_name(std::string_view name) const {
    return is(TokenKind::name) && current().text == name;
  }
  bool is_symbol(std::string_view symbol) const {
    return is(TokenKind::symbol) && current().text == symbol;
  }
  bool skip_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) next();
    return found;
  }
  bool skip_symbol(std::string_view symbol) {
    const bool found = is_symbol(symbol);
    if (found) next();
    return found;
  }

  Status expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) return unexpected(what);
    next();
    return Status();
  }
  Status expect_symbol(std::string_view symbol) {
    if (!is_symbol(symbol)) return unexpected("'" + std::string(symbol) + "'");
    next();
    return Status();
  }
  Result<Token> expect_name() {
    if (!is(TokenKind::name)) return unexpected("a name");
    return next();
  }

  Status unexpected(std::string_view expected) const {
    const Token& token = current();
    const std::string found =
        token.kind == TokenKind::end ? token.text : "unexpected " + in_quotes(token.text, 80);
    return invalid_argument(to_string(token.at) + ": " + found + " – expected " +
                            std::string(expected));
  }

 private:
  std::vector<Token> tokens_;  // the last one is `end`
  size_t at_ = 0;
};

}  // namespace tenon::chat
