#include "core/chat/calls/python_literal.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ascii.h"
#include "core/base/utf8.h"
#include "core/chat/calls/call_reader.h"
#include "core/chat/calls/python_number.h"
#include "core/chat/calls/tool_types.h"
#include "core/jinja/syntax/lexer_string.h"

namespace tenon::chat {
namespace {

constexpr uint32_t kMostDepth = 64;

bool is_quote(char c) {
  return c == '"' || c == '\'';
}

// Python's source has one kind of line end.
std::string with_plain_lines(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    plain += text[at] == '\r' ? '\n' : text[at];
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') ++at;
  }
  return plain;
}

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : left_(text) {}

  // Appends the value in front, with the white space around it.
  bool value(std::string& json) {
    skip_space();
    if (left_.empty() || depth_ == kMostDepth) return false;
    const char c = left_.front();
    bool read = false;
    if (text_prefix()) {
      read = joined_texts(json);
    } else if (c == '[') {
      read = list(json);
    } else if (c == '(') {
      read = tuple(json);
    } else if (c == '{') {
      read = braces(json);
    } else {
      read = word(json);
    }
    skip_space();
    return read;
  }
  bool at_end() const { return left_.empty(); }

 private:
  using Items = std::vector<std::string>;

  // Comments, and line ends with a backslash before them, are white space.
  void skip_space() {
    while (!left_.empty()) {
      if (is_space(left_.front()) || left_.front() == '\f') {
        left_.remove_prefix(1);
      } else if (left_.front() == '#') {
        left_.remove_prefix(std::min(left_.find('\n'), left_.size()));
      } else if (left_.starts_with("\\\n") || left_.starts_with("\\\r\n")) {
        left_.remove_prefix(2);
      } else {
        return;
      }
    }
  }
  bool take(char c) {
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }

  // The letters before a text, in lower case; null where none begins.
  std::optional<std::string> text_prefix() const {
    for (size_t letters = 0; letters < 3 && letters < left_.size(); ++letters) {
      if (!is_quote(left_[letters])) continue;
      const std::string prefix = lower_ascii(left_.substr(0, letters));
      for (const std::string_view known : {"", "r", "u", "b", "br", "rb"}) {
        if (prefix == known) return prefix;
      }
    }
    return std::nullopt;
  }

  // Texts that follow each other are one.
  bool joined_texts(std::string& json) {
    std::string all;
    std::optional<bool> are_bytes;
    while (const auto prefix = text_prefix()) {
      const bool is_bytes = prefix->find('b') != std::string::npos;
      if (are_bytes.value_or(is_bytes) != is_bytes) return false;
      are_bytes = is_bytes;
      left_.remove_prefix(prefix->size());
      if (!one_text(is_bytes, prefix->find('r') != std::string::npos, all)) return false;
      skip_space();
    }
    if (*are_bytes && !is_utf8(all)) return false;
    json += '"' + escaped_json(all) + '"';
    return true;
  }

  bool one_text(bool is_bytes, bool is_raw, std::string& all) {
    const std::string_view three = left_.substr(0, 3);
    const bool is_long = three == "\"\"\"" || three == "'''";
    const std::string_view quotes = is_long ? three : left_.substr(0, 1);
    size_t end = quotes.size();
    while (end < left_.size() && !left_.substr(end).starts_with(quotes)) {
      end += left_[end] == '\\' ? 2 : 1;
    }
    if (end >= left_.size()) return false;
    const std::string inside = with_plain_lines(left_.substr(quotes.size(), end - quotes.size()));
    left_.remove_prefix(end + quotes.size());
    if (is_raw) {
      all += inside;
      return true;
    }
    const auto fault = is_bytes ? unescape_bytes(inside, all) : unescape_string(inside, all);
    return !fault;
  }

  // Values with commas between them, and perhaps after the last, up to `end`.
  bool items(char end, Items& all, bool& has_comma) {
    left_.remove_prefix(1);
    ++depth_;
    has_comma = false;
    while (skip_space(), !take(end)) {
      std::string item;
      if (!value(item)) return false;
      all.push_back(std::move(item));
      has_comma = take(',');
      if (!has_comma && !left_.starts_with(end)) return false;
    }
    --depth_;
    return true;
  }

  static void add_list(const Items& all, std::string& json) {
    json += '[';
    for (size_t i = 0; i < all.size(); ++i) json += (i == 0 ? "" : ", ") + all[i];
    json += ']';
  }

  bool list(std::string& json) {
    Items all;
    bool has_comma = false;
    if (!items(']', all, has_comma)) return false;
    add_list(all, json);
    return true;
  }

  // One value without a comma after it only stands in brackets.
  bool tuple(std::string& json) {
    Items all;
    bool has_comma = false;
    if (!items(')', all, has_comma)) return false;
    if (all.size() == 1 && !has_comma) {
      json += all.front();
    } else {
      add_list(all, json);
    }
    return true;
  }

  bool braces(std::string& json) {
    left_.remove_prefix(1);
    ++depth_;
    skip_space();
    bool read = true;
    if (take('}')) {
      json += "{}";
    } else {
      std::string first;
      read = may_be_key() && value(first) &&
             (left_.starts_with(':') ? dictionary(std::move(first), json)
                                     : set(std::move(first), json));
    }
    --depth_;
    return read;
  }

  // What changes is neither in a set nor a key.
  bool may_be_key() const { return !left_.starts_with('[') && !left_.starts_with('{'); }

  // Whether another item follows; null where neither a comma nor the end stands.
  std::optional<bool> goes_on() {
    const bool has_comma = take(',');
    skip_space();
    if (take('}')) return false;
    return has_comma ? std::optional(true) : std::nullopt;
  }

  bool set(std::string item, std::string& json) {
    Items distinct;
    std::set<std::string> seen;
    while (true) {
      if (seen.insert(item).second) distinct.push_back(item);
      const std::optional<bool> more = goes_on();
      if (!more) return false;
      if (!*more) break;
      item.clear();
      if (!may_be_key() || !value(item)) return false;
    }
    add_list(distinct, json);
    return true;
  }

  // Of equal keys the last value counts.
  bool dictionary(std::string key, std::string& json) {
    std::vector<std::pair<std::string, std::string>> entries;
    while (true) {
      std::string item;
      if (key.starts_with('[') || !take(':') || !value(item)) return false;
      if (!key.starts_with('"')) key = '"' + key + '"';
      entries.emplace_back(std::move(key), std::move(item));
      const std::optional<bool> more = goes_on();
      if (!more) return false;
      if (!*more) break;
      key.clear();
      if (!may_be_key() || !value(key)) return false;
    }
    json += '{';
    add_entries(entries, json);
    json += '}';
    return true;
  }

  static void add_entries(const std::vector<std::pair<std::string, std::string>>& entries,
                          std::string& json) {
    std::map<std::string_view, size_t> last;
    for (size_t i = 0; i < entries.size(); ++i) last[entries[i].first] = i;
    bool is_first = true;
    for (const auto& [key, item] : entries) {
      const auto found = last.find(key);
      if (found == last.end()) continue;
      json += (std::exchange(is_first, false) ? "" : ", ") + key + ": ";
      json += entries[found->second].second;
      last.erase(found);
    }
  }

  // A number with its sign, or a word that stands for a value.
  bool word(std::string& json) {
    const bool is_negative = left_.starts_with('-');
    const bool has_sign = is_negative || left_.starts_with('+');
    if (has_sign) left_.remove_prefix(1);
    if (has_sign) skip_space();
    if (has_sign && left_.starts_with('(')) return number_in_brackets(is_negative, json);
    size_t end = 0;
    while (end < left_.size() && belongs_to_word(end)) ++end;
    const std::string_view written = left_.substr(0, end);
    left_.remove_prefix(end);
    if (const auto number = python_number_json(written)) {
      json += (is_negative && *number != "0" ? "-" : "") + *number;
      return true;
    }
    if (has_sign) return false;
    if (written == "set" && left_.starts_with("()")) {
      left_.remove_prefix(2);
      json += "[]";
      return true;
    }
    const bool is_value = written == "True" || written == "False" || written == "None" ||
                          written == "true" || written == "false" || written == "null";
    if (is_value) json += unquoted_value_json(written);
    return is_value;
  }
  bool number_in_brackets(bool is_negative, std::string& json) {
    std::string inside;
    if (!tuple(inside) || inside.front() < '0' || inside.front() > '9') return false;
    json += (is_negative && inside != "0" ? "-" : "") + inside;
    return true;
  }
  // The sign of an exponent too.
  bool belongs_to_word(size_t at) const {
    const char c = left_[at];
    const int letter = c | 0x20;
    if ((letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.') {
      return true;
    }
    const bool after_e = at > 0 && (left_[at - 1] | 0x20) == 'e' && !left_.starts_with("0x") &&
                         !left_.starts_with("0X");
    return (c == '+' || c == '-') && after_e;
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
