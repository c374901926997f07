#include "core/config/toml_parse.h"

#include <algorithm>

#include "core/base/origin.h"
#include "core/base/text.h"

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

// Of a table that stands in the file twice: the line of the first.
std::string where_it_began(std::string_view text, const toml::parse_error& error) {
  constexpr std::string_view kTwice = "cannot redefine existing table '";
  const std::string_view said = error.description();
  const size_t at = said.find(kTwice);
  if (at == said.npos) return {};
  const std::string_view name = said.substr(at + kTwice.size());
  const std::string header = "[" + std::string(name.substr(0, name.find('\''))) + "]";
  for (uint32_t line = 1; line < error.source().begin.line && !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (trim(text.substr(0, end)).starts_with(header)) {
      return "; it begins in line " + std::to_string(line) + ", put its keys there";
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
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
    return invalid_argument(at.text() + ": not TOML: " + std::string(error.description()) +
                            where_it_began(text, error));
  } catch (const std::exception& error) {
    return invalid_argument(name + ": cannot be read as TOML: " + error.what());
  }
}

}  // namespace tenon
