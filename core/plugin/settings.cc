#include "core/plugin/settings.h"

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

std::string kind(const SettingValue& value) {
  static constexpr const char* kKinds[] = {"the boolean", "the integer", "the number", "the text",
                                           "the list"};
  return kKinds[value.index()];
}

}  // namespace

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      static constexpr char kDigits[] = "0123456789abcdef";
      quoted += "\\u00";
      quoted += kDigits[c >> 4 & 15];
      quoted += kDigits[c & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string to_toml(const SettingValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return format_real(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return quote_toml(*text);
  std::vector<std::string> items;
  for (const std::string& item : std::get<std::vector<std::string>>(value)) {
    items.push_back(quote_toml(item));
  }
  return "[" + join(items) + "]";
}

std::string describe(const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return kind(value) + " " +
         (text != nullptr ? shown_text(*text) : one_line(to_toml(value), kMostValueBytes));
}

}  // namespace tenon
