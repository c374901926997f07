#include "core/config/toml_parse.h"

#include <algorithm>

#include "core/base/origin.h"

namespace tenon {
namespace {

constexpr size_t kMostDots = 32;

// The quotes that open a string at `at`: one, or three for a string of several lines.
std::string_view opening_quotes(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  return three == std::string(3, quote) ? three : text.substr(at, 1);
}

// After the string that starts at `at`, or at the end of the line that it should have ended on.
size_t skip_string(std::string_view text, size_t at) {
  const std::string_view quotes = opening_quotes(text, at);
  for (at += quotes.size(); at < text.size(); ++at) {
    if (text.substr(at, quotes.size()) == quotes) return at + quotes.size();
    if (text[at] == '\n' && quotes.size() == 1) return at;
    if (text[at] == '\\' && quotes[0] == '"') ++at;
  }
  return text.size();
}

}  // namespace

size_t line_with_too_many_dots(std::string_view text) {
  size_t line = 1;
  size_t dots = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const size_t end = skip_string(text, at);
      line += static_cast<size_t>(
          std::count(text.begin() + static_cast<ptrdiff_t>(at),
                     text.begin() + static_cast<ptrdiff_t>(std::min(end, text.size())), '\n'));
      at = std::max(end, at + 1);
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (text[at] == '\n') {
      ++line;
      dots = 0;
    } else if (text[at] == '.' && ++dots > kMostDots) {
      return line;
    }
    ++at;
  }
  return 0;
}

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
  if (const size_t line = line_with_too_many_dots(text); line > 0) {
    return invalid_argument(name + ":" + std::to_string(line) +
                            ":1: more than 32 points outside of strings; no key is nested so deep");
  }
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    const Origin at{name, error.source().begin.line, error.source().begin.column};
    return invalid_argument(at.text() + ": not TOML: " + std::string(error.description()));
  } catch (const std::exception& error) {
    return invalid_argument(name + ": cannot be read as TOML: " + error.what());
  }
}

}  // namespace tenon
