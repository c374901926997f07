// How `tojson` and texts of lists and mappings write values as JSON.
#include <algorithm>
#include <cmath>

#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

void add_unit(uint32_t unit, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += kDigits[(unit >> static_cast<unsigned>(shift)) & 15];
  }
}

void add_escaped(char32_t code, std::string& out) {
  if (code >= 0x10000) {
    add_unit(0xD800 + ((code - 0x10000) >> 10), out);
    add_unit(0xDC00 + ((code - 0x10000) & 0x3FF), out);
  } else {
    add_unit(static_cast<uint32_t>(code), out);
  }
}

std::string json_string(std::string_view text, bool ascii_only) {
  static constexpr std::string_view kPlain = "\"\\\n\r\t\f\b";
  static constexpr std::string_view kLetters = "\"\\nrtfb";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t length = tok::rune_bytes(c);
    if (const size_t plain = kPlain.find(c); plain != std::string_view::npos) {
      out += '\\';
      out += kLetters[plain];
    } else if (static_cast<uint8_t>(c) < 0x20 ||
               (ascii_only && static_cast<uint8_t>(c) >= 0x7F && c != '\x7F')) {
      add_escaped(tok::first_rune(text.substr(at)).code, out);
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out + "\"";
}

std::string json_number(const Value& value) {
  if (value.is_integer()) return integer_text(value.whole());
  const double real = value.real();
  if (std::isnan(real)) return "NaN";
  if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
  return real_text(real);
}

// Nothing that JSON writes is trusted: its brackets follow the shape of what was passed in.
class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TextBuilder& out) : style_(style), out_(out) {}

  Status write(const Value& value) {
    out_.budget().spend(1);
    if (out_.budget().is_exceeded()) return out_.budget().status();
    if (value.is_text()) {
      put(json_string(value.bytes(), style_.ascii_only));
    } else if (value.is_none()) {
      put("null");
    } else if (value.is_boolean()) {
      put(value.boolean() ? "true" : "false");
    } else if (value.is_number()) {
      put(json_number(value));
    } else if (value.dict() != nullptr) {
      return write_dict(*value.dict());
    } else if (value.list() != nullptr && value.list()->is_sequence()) {
      return write_list(*value.list());
    } else {
      return type_error("written as JSON", value);
    }
    return Status();
  }

 private:
  void put(std::string_view text) { out_.add(text, false); }
  void new_line() {
    if (!style_.indent) return;
    put("\n");
    for (size_t i = 0; i < level_; ++i) put(*style_.indent);
  }

  Status write_list(const List& list) {
    if (list.items.empty()) {
      put("[]");
      return Status();
    }
    put("[");
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      TENON_RETURN_IF_ERROR(write(list.items[i]));
    }
    --level_;
    new_line();
    put("]");
    return Status();
  }

  Status write_key(const Value& key) {
    if (key.is_text()) return write(key);
    put("\"");
    if (key.is_number() || key.is_none()) {
      TENON_RETURN_IF_ERROR(write(key));
    } else {
      return type_error("a key of JSON", key);
    }
    put("\"");
    return Status();
  }

  Status write_dict(const Dict& dict) {
    if (dict.items.empty()) {
      put("{}");
      return Status();
    }
    TENON_ASSIGN_OR_RETURN(const std::vector<const Dict::Item*> items, ordered(dict));
    put("{");
    ++level_;
    bool is_first = true;
    for (const Dict::Item* item : items) {
      if (!std::exchange(is_first, false)) put(style_.item_separator);
      new_line();
      TENON_RETURN_IF_ERROR(write_key(item->first));
      put(style_.key_separator);
      TENON_RETURN_IF_ERROR(write(item->second));
    }
    --level_;
    new_line();
    put("}");
    return Status();
  }

  Result<std::vector<const Dict::Item*>> ordered(const Dict& dict) {
    std::vector<const Dict::Item*> items;
    for (const Dict::Item& item : dict.items) items.push_back(&item);
    if (!style_.sorts_keys) return items;
    const bool are_texts = std::all_of(
        items.begin(), items.end(), [](const Dict::Item* item) { return item->first.is_text(); });
    if (!are_texts) return invalid_argument("keys that are no texts cannot be sorted");
    out_.budget().spend(items.size() * 8);
    std::stable_sort(items.begin(), items.end(), [](const Dict::Item* a, const Dict::Item* b) {
      return a->first.bytes() < b->first.bytes();
    });
    return items;
  }

  const JsonStyle& style_;
  TextBuilder& out_;
  size_t level_ = 0;
};

}  // namespace

Status add_json(const Value& value, const JsonStyle& style, TextBuilder& out) {
  return JsonWriter(style, out).write(value);
}

}  // namespace tenon::chat
