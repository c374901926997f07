// JSON that arrives a byte at a time: where its values begin and end, and the byte at which it is
// no JSON any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::chat {

// One object or list, from its first byte on. Strings are not held against UTF-8.
class JsonStream {
 public:
  enum class Status : uint8_t { more, done, bad };
  // What the latest byte was.
  enum class Token : uint8_t {
    none,
    begin_object,
    end_object,
    begin_list,
    end_list,
    begin_string,
    end_string,
    begin_scalar,  // a number, true, false or null
  };

  // `done` with the byte that closes the value; no further byte may follow then.
  Status push(char c);
  Token token() const { return token_; }
  // Objects and lists that are open after the latest byte.
  size_t depth() const { return open_.size(); }
  // Whether the string that the latest byte belongs to is a key.
  bool in_key() const { return is_key_; }
  bool in_string() const { return expected_ == Expected::string_byte || in_escape(); }

 private:
  enum class Expected : uint8_t {
    value,
    value_or_end,  // after "["
    key,
    key_or_end,  // after "{"
    colon,
    comma_or_end,
    string_byte,
    escape,
    unicode_digit,
    number_byte,
    literal_byte,
  };

  bool in_escape() const {
    return expected_ == Expected::escape || expected_ == Expected::unicode_digit;
  }
  bool begin_value(char c);
  bool begin_string(bool is_key);
  bool string_byte(char c);
  bool begin_number(char c);
  bool number_byte(char c);
  bool number_may_end() const;
  bool open(char bracket);
  bool close(char bracket);
  bool between(char c);

  std::string open_;  // "{" and "["
  Expected expected_ = Expected::value;
  Token token_ = Token::none;
  bool is_key_ = false;
  uint8_t digits_left_ = 0;
  std::string_view literal_;  // what is left of it
  enum class Number : uint8_t { sign, zero, digits, point, fraction, e, e_sign, exponent };
  Number number_ = Number::sign;
};

}  // namespace tenon::chat
