// From the text of a template to tokens, with Jinja's rules for white space around tags
// (trim_blocks and lstrip_blocks on, one newline at the end dropped, as transformers has them).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::chat {

// From 1; columns count characters.
struct Position {
  uint32_t line = 1;
  uint32_t column = 1;
};
std::string to_string(Position at);  // "12:5"

enum class TokenKind {
  data,            // text between tags
  variable_begin,  // {{
  variable_end,
  block_begin,  // {%
  block_end,
  name,
  text,  // a string in quotes, without them
  integer,
  real,
  symbol,  // an operator or a bracket
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // the data, the name, the text, the digits, the symbol
  Position at;
};

// Errors (invalid_argument), with line and column: a character that is no token; a tag, a comment
// or a string that does not end; brackets that do not match.
Result<std::vector<Token>> tokenize_template(std::string_view source);

}  // namespace tenon::chat
