#include "core/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/jinja/marked_text.h"
#include "core/jinja/read_number.h"
#include "core/jinja/syntax/lexer_string.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

constexpr size_t kMostTokens = size_t{1} << 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// All line ends as "\n", and the last one dropped.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
    } else {
      out += '\n';
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    if (!is_utf8(source_)) return invalid_argument("the chat template is not UTF-8");
    while (at_ < source_.size()) {
      TENON_RETURN_IF_ERROR(lex_data());
      if (tokens_.size() > kMostTokens) {
        return invalid_argument("the chat template has more than " + std::to_string(kMostTokens) +
                                " tokens");
      }
    }
    push(TokenKind::end, "end of the template");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void push(TokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), position(at_)});
  }
  Position position(size_t at) {
    const size_t from = seen_ <= at ? seen_ : 0;
    if (from == 0) seen_position_ = {};
    for (size_t i = from; i < at; ++i) {
      if (source_[i] == '\n') {
        ++seen_position_.line;
        seen_position_.column = 1;
      } else if ((static_cast<uint8_t>(source_[i]) & 0xC0) != 0x80) {
        ++seen_position_.column;
      }
    }
    seen_ = at;
    return seen_position_;
  }
  Status fail(size_t at, const std::string& what) {
    return invalid_argument(to_string(position(at)) + ": " + what);
  }

  void skip_spaces() {
    while (at_ < source_.size()) {
      const tok::Rune rune = tok::first_rune(rest());
      if (!is_python_space(rune.code)) return;
      at_ += rune.bytes;
    }
  }

  // The text up to the next tag, and the tag.
  Status lex_data() {
    size_t begin = at_;
    size_t tag = std::string::npos;
    for (size_t i = source_.find('{', begin); i != std::string::npos;
         i = source_.find('{', i + 1)) {
      const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') {
        tag = i;
        break;
      }
    }
    if (tag == std::string::npos) {
      push_data(begin, source_.size());
      at_ = source_.size();
      return Status();
    }
    const char kind = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    push_data(begin, data_end(begin, tag, sign, kind != '{'));
    at_ = tag;
    const Position where = position(tag);
    at_ = tag + 2 + (sign == '\0' ? 0 : 1);
    if (kind == '#') return skip_comment(tag);
    if (kind == '{') {
      tokens_.push_back({TokenKind::variable_begin, "{{", where});
      return lex_code(tag, "}}");
    }
    if (begins_raw()) return lex_raw(tag);
    tokens_.push_back({TokenKind::block_begin, "{%", where});
    return lex_code(tag, "%}");
  }

  // Where the text before a tag ends, once white space is taken off.
  size_t data_end(size_t begin, size_t tag, char sign, bool strips_line) const {
    const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    if (sign == '-') return begin + stripped(text, nullptr, false, true).end;
    if (sign == '+' || !strips_line) return tag;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !at_line_start_) return tag;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const ByteRange blank = stripped(text.substr(line), nullptr, true, false);
    return blank.begin == blank.end ? begin + line : tag;
  }
  void push_data(size_t begin, size_t end) {
    if (begin >= end) return;
    at_ = begin;
    push(TokenKind::data, source_.substr(begin, end - begin));
  }

  // After a tag's end at at_: what of the following text belongs to it.
  void end_tag(char sign, bool trims_newline) {
    if (sign == '-') skip_spaces();
    if (sign == '\0' && trims_newline && peek() == '\n') ++at_;
    at_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  Status skip_comment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return fail(tag, "a comment without its end '#}'");
    const char before = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    end_tag(before == '-' || before == '+' ? before : '\0', true);
    return Status();
  }

  // "raw -%}" or "raw %}" stands at at_; leaves at_ behind it, otherwise in place.
  bool begins_raw() {
    const size_t start = at_;
    skip_spaces();
    if (rest().starts_with("raw")) {
      at_ += 3;
      skip_spaces();
      if (rest().starts_with("-%}") || rest().starts_with("%}")) {
        const char sign = peek() == '-' ? '-' : '\0';
        at_ += sign == '-' ? 3 : 2;
        end_tag(sign, false);
        return true;
      }
    }
    at_ = start;
    return false;
  }
  Status lex_raw(size_t tag) {
    const size_t begin = at_;
    for (size_t i = source_.find("{%", begin); i != std::string::npos;
         i = source_.find("{%", i + 1)) {
      at_ = i + 2;
      char sign = peek();
      if (sign == '-' || sign == '+') ++at_;
      if (sign != '-' && sign != '+') sign = '\0';
      skip_spaces();
      if (!rest().starts_with("endraw")) continue;
      at_ += 6;
      skip_spaces();
      const char end_sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (end_sign != '\0') ++at_;
      if (!rest().starts_with("%}")) continue;
      const size_t after = at_ + 2;
      push_data(begin, data_end(begin, i, sign, true));
      at_ = after;
      end_tag(end_sign, true);
      return Status();
    }
    return fail(tag, "a raw block without its end '{% endraw %}'");
  }

  // The tokens of a tag up to its end.
  Status lex_code(size_t tag, std::string_view end) {
    std::vector<char> open;
    const TokenKind end_kind = end == "}}" ? TokenKind::variable_end : TokenKind::block_end;
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) {
        return fail(tag, "a tag without its end '" + std::string(end) + "'");
      }
      const char sign = peek() == '-' || (peek() == '+' && end == "%}") ? peek() : '\0';
      const size_t sign_bytes = sign == '\0' ? 0 : 1;
      if (open.empty() && rest().substr(sign_bytes).starts_with(end)) {
        push(end_kind, std::string(end));
        at_ += sign_bytes + 2;
        end_tag(sign, end == "%}");
        return Status();
      }
      TENON_RETURN_IF_ERROR(lex_token(open));
    }
  }

  Status lex_token(std::vector<char>& open) {
    const char c = peek();
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string();
    const tok::Rune rune = tok::first_rune(rest());
    if (rune.code == '_' || tok::is_word(rune.code)) {
      const size_t begin = at_;
      while (at_ < source_.size()) {
        const tok::Rune next = tok::first_rune(rest());
        if (!tok::is_word(next.code)) break;
        at_ += next.bytes;
      }
      const size_t end = std::exchange(at_, begin);
      push(TokenKind::name, source_.substr(begin, end - begin));
      at_ = end;
      return Status();
    }
    return lex_symbol(open);
  }

  Status lex_symbol(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 27> kSymbols = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">",
        "=",  "(",  ")",  "[",  "]",  "{",  "}", ".", ":", "|", ",", ";", "!"};
    const auto found = std::find_if(kSymbols.begin(), kSymbols.end(), [&](std::string_view symbol) {
      return rest().starts_with(symbol);
    });
    if (found == kSymbols.end() || *found == "!") {
      const tok::Rune rune = tok::first_rune(rest());
      return fail(at_, "the character " + in_quotes(rest().substr(0, rune.bytes)) +
                           " is not part of the template language");
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        return fail(at_, "unexpected '" + std::string(1, c) + "'" +
                             (open.empty() ? std::string()
                                           : " – expected '" + std::string(1, open.back()) + "'"));
      }
      open.pop_back();
    }
    push(TokenKind::symbol, std::string(*found));
    at_ += found->size();
    return Status();
  }

  // Digits with single underscores between them.
  size_t digits(size_t at) const {
    while (at < source_.size() &&
           (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                      is_digit(source_[at + 1]) && is_digit(source_[at - 1])))) {
      ++at;
    }
    return at;
  }
  bool has_digit(size_t at) const { return at < source_.size() && is_digit(source_[at]); }

  // Of a number such as 0x1F; 10 for all others.
  int base_at(size_t at) const {
    if (source_[at] != '0' || at + 1 >= source_.size()) return 10;
    const int base = base_of_sign(source_[at + 1]);
    const size_t first = at + 2 + (at + 2 < source_.size() && source_[at + 2] == '_' ? 1 : 0);
    return first < source_.size() && is_digit_of(source_[first], base) ? base : 10;
  }

  void lex_based_number(int base) {
    std::string number = source_.substr(at_, 2);
    size_t end = at_ + 2;
    for (; end < source_.size(); ++end) {
      const bool is_joint =
          source_[end] == '_' && end + 1 < source_.size() && is_digit_of(source_[end + 1], base);
      if (!is_joint && !is_digit_of(source_[end], base)) break;
      if (!is_joint) number += source_[end];
    }
    push(TokenKind::integer, std::move(number));
    at_ = end;
  }

  Status lex_number() {
    const size_t begin = at_;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    if (const int base = base_at(begin); base != 10 && !after_dot) {
      lex_based_number(base);
      return Status();
    }
    size_t end = digits(at_);
    bool is_real = false;
    if (!after_dot && end < source_.size() && source_[end] == '.' && has_digit(end + 1)) {
      is_real = true;
      end = digits(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (has_digit(exponent)) {
        is_real = true;
        end = digits(exponent);
      }
    }
    std::string number = source_.substr(begin, end - begin);
    std::erase(number, '_');
    if (!is_real && number.size() > 1 && number.front() == '0' &&
        number.find_first_not_of('0') != std::string::npos) {
      return fail(begin, "the number " + number + " begins with 0");
    }
    push(is_real ? TokenKind::real : TokenKind::integer, std::move(number));
    at_ = end;
    return Status();
  }

  Status lex_string() {
    const size_t begin = at_;
    const char quote = peek();
    size_t end = begin + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return fail(begin, "a string without its end");
    const std::string_view inside = std::string_view(source_).substr(begin + 1, end - begin - 1);
    std::string text;
    if (const auto fault = unescape_string(inside, text)) return fail(begin, *fault);
    push(TokenKind::text, std::move(text));
    at_ = end + 1;
    return Status();
  }

  std::string source_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
  size_t seen_ = 0;  // the byte that seen_position_ is the position of
  Position seen_position_;
};

}  // namespace

std::string to_string(Position at) {
  return std::to_string(at.line) + ":" + std::to_string(at.column);
}

Result<std::vector<Token>> tokenize_template(std::string_view source) {
  return Lexer(with_plain_lines(source)).run();
}

}  // namespace tenon::chat
