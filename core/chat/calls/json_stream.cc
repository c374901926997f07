#include "core/chat/calls/json_stream.h"

#include "core/base/digest/hex.h"

namespace tenon::chat {
namespace {

// Deeper than any call of a tool; the conversation that it is sent back in allows 64.
constexpr size_t kMostDepth = 64;

bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
}  // namespace

JsonStream::Status JsonStream::push(char c) {
  token_ = Token::none;
  if (expected_ == Expected::number_byte && !number_byte(c)) {
    if (!number_may_end()) return Status::bad;
    expected_ = Expected::comma_or_end;
  } else if (expected_ == Expected::number_byte) {
    return Status::more;
  }
  const bool sound = in_string() ? string_byte(c) : between(c);
  if (!sound) return Status::bad;
  return open_.empty() ? Status::done : Status::more;
}

bool JsonStream::between(char c) {
  if (expected_ == Expected::literal_byte) {
    if (c != literal_.front()) return false;
    literal_.remove_prefix(1);
    if (literal_.empty()) expected_ = Expected::comma_or_end;
    return true;
  }
  // A value that stands alone begins with its first byte.
  if (is_json_space(c)) return !open_.empty();
  switch (expected_) {
    case Expected::value_or_end:
      return c == ']' ? close('[') : begin_value(c);
    case Expected::value:
      return begin_value(c);
    case Expected::key_or_end:
      return c == '}' ? close('{') : c == '"' && begin_string(true);
    case Expected::key:
      return c == '"' && begin_string(true);
    case Expected::colon:
      expected_ = Expected::value;
      return c == ':';
    default:
      break;
  }
  if (c == '}') return close('{');
  if (c == ']') return close('[');
  expected_ = open_.back() == '{' ? Expected::key : Expected::value;
  return c == ',';
}

bool JsonStream::begin_value(char c) {
  if (c == '{' || c == '[') return open(c);
  if (open_.empty()) return false;
  if (c == '"') return begin_string(false);
  token_ = Token::begin_scalar;
  expected_ = Expected::literal_byte;
  switch (c) {
    case 't':
      literal_ = "rue";
      return true;
    case 'f':
      literal_ = "alse";
      return true;
    case 'n':
      literal_ = "ull";
      return true;
    default:
      return begin_number(c);
  }
}

bool JsonStream::open(char bracket) {
  if (open_.size() == kMostDepth) return false;
  open_ += bracket;
  token_ = bracket == '{' ? Token::begin_object : Token::begin_list;
  expected_ = bracket == '{' ? Expected::key_or_end : Expected::value_or_end;
  return true;
}

bool JsonStream::close(char bracket) {
  if (open_.back() != bracket) return false;
  open_.pop_back();
  token_ = bracket == '{' ? Token::end_object : Token::end_list;
  expected_ = Expected::comma_or_end;
  return true;
}

bool JsonStream::begin_string(bool is_key) {
  is_key_ = is_key;
  token_ = Token::begin_string;
  expected_ = Expected::string_byte;
  return true;
}

bool JsonStream::string_byte(char c) {
  if (expected_ == Expected::escape) {
    expected_ = c == 'u' ? Expected::unicode_digit : Expected::string_byte;
    digits_left_ = 4;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos;
  }
  if (expected_ == Expected::unicode_digit) {
    if (--digits_left_ == 0) expected_ = Expected::string_byte;
    return hex_digit(c) >= 0;
  }
  if (c == '"') {
    token_ = Token::end_string;
    expected_ = is_key_ ? Expected::colon : Expected::comma_or_end;
  } else if (c == '\\') {
    expected_ = Expected::escape;
  }
  return static_cast<unsigned char>(c) >= 0x20;
}

bool JsonStream::begin_number(char c) {
  expected_ = Expected::number_byte;
  number_ = c == '-' ? Number::sign : c == '0' ? Number::zero : Number::digits;
  return c == '-' || is_digit(c);
}

// Whether the byte belongs to the number.
bool JsonStream::number_byte(char c) {
  const auto go = [&](bool fits, Number next) {
    if (fits) number_ = next;
    return fits;
  };
  const bool is_e = c == 'e' || c == 'E';
  switch (number_) {
    case Number::sign:
      return go(is_digit(c), c == '0' ? Number::zero : Number::digits);
    case Number::zero:
      return go(c == '.', Number::point) || go(is_e, Number::e);
    case Number::digits:
      return is_digit(c) || go(c == '.', Number::point) || go(is_e, Number::e);
    case Number::point:
      return go(is_digit(c), Number::fraction);
    case Number::fraction:
      return is_digit(c) || go(is_e, Number::e);
    case Number::e:
      return go(c == '+' || c == '-', Number::e_sign) || go(is_digit(c), Number::exponent);
    case Number::e_sign:
      return go(is_digit(c), Number::exponent);
    case Number::exponent:
      return is_digit(c);
  }
  return false;
}

bool JsonStream::number_may_end() const {
  return number_ == Number::zero || number_ == Number::digits || number_ == Number::fraction ||
         number_ == Number::exponent;
}

}  // namespace tenon::chat
