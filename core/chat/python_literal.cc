#include "core/chat/python_literal.h"

#include <algorithm>
#include <cstdint>

#include "core/chat/lexer_string.h"
#include "core/chat/tool_types.h"

namespace tenon::chat {
namespace {

constexpr uint32_t kMostDepth = 64;

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : left_(text) {}

  // Appends the value in front, with the white space around it.
  bool value(std::string& json) {
    skip_space();
    if (left_.empty() || depth_ == kMostDepth) return false;
    const char c = left_.front();
    bool read = false;
    if (c == '"' || c == '\'') {
      read = text(json);
    } else if (c == '[' || c == '(') {
      read = list(c == '[' ? ']' : ')', json);
    } else if (c == '{') {
      read = dictionary(json);
    } else {
      read = word(json);
    }
    skip_space();
    return read;
  }
  bool at_end() const { return left_.empty(); }

 private:
  void skip_space() {
    while (!left_.empty() && is_space(left_.front())) left_.remove_prefix(1);
  }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  bool take(char c) {
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }

  bool text(std::string& json) {
    const char quote = left_.front();
    size_t end = 1;
    while (end < left_.size() && left_[end] != quote) end += left_[end] == '\\' ? 2 : 1;
    if (end >= left_.size()) return false;
    std::string meaning;
    if (unescape_string(left_.substr(1, end - 1), meaning)) return false;
    left_.remove_prefix(end + 1);
    json += '"';
    json += escaped_json(meaning);
    json += '"';
    return true;
  }

  // Of a list or tuple.
  bool list(char end, std::string& json) {
    left_.remove_prefix(1);
    ++depth_;
    json += '[';
    for (bool first = true; skip_space(), !take(end); first = false) {
      if (!first) json += ", ";
      if (!value(json)) return false;
      if (!take(',') && !left_.starts_with(end)) return false;
    }
    --depth_;
    json += ']';
    return true;
  }

  bool dictionary(std::string& json) {
    left_.remove_prefix(1);
    ++depth_;
    json += '{';
    for (bool first = true; skip_space(), !take('}'); first = false) {
      if (!first) json += ", ";
      const bool is_text = left_.starts_with('"') || left_.starts_with('\'');
      const bool is_value = left_.find_first_of("[({") != 0;
      if (!is_text) json += '"';
      if (!is_value || !value(json) || !take(':')) return false;
      json += is_text ? ": " : "\": ";
      if (!value(json)) return false;
      if (!take(',') && !left_.starts_with('}')) return false;
    }
    --depth_;
    json += '}';
    return true;
  }

  // A number, or a word that stands for a value.
  bool word(std::string& json) {
    const auto* end = std::find_if(left_.begin(), left_.end(), [](char c) {
      return is_space(c) || std::string_view(",:)]}").find(c) != std::string_view::npos;
    });
    const std::string_view written = left_.substr(0, static_cast<size_t>(end - left_.begin()));
    left_.remove_prefix(written.size());
    // Python may group digits, writes "+", and leaves out the zero on either side of a point.
    std::string number;
    for (const char c : written) {
      if (c == '.' && (number.empty() || number == "-")) number += '0';
      if (c != '_' && c != '+') number += c;
    }
    if (number.ends_with('.')) number += '0';
    const std::string value = unquoted_value_json(number);
    if (value.starts_with('"') || value.starts_with('[') || value.starts_with('{')) return false;
    json += value;
    return true;
  }

  std::string_view left_;
  uint32_t depth_ = 0;
};

}  // namespace

std::optional<std::string> python_literal_json(std::string_view text) {
  LiteralReader reader(text);
  std::string json;
  if (!reader.value(json) || !reader.at_end()) return std::nullopt;
  return json;
}

}  // namespace tenon::chat
