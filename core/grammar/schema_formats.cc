#include <utility>
#include <vector>

#include "core/grammar/schema_constraint.h"

namespace tenon::grammar {
namespace {

using Formats = std::vector<std::pair<std::string, std::string>>;

// Each is a part of what its standard allows, so that every validator agrees.
Formats make_formats() {
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  const std::string label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
  const std::string date =
      "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"
      "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
      "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string count = "[0-9]{1,6}";
  const std::string seconds = "(" + count + "S)?";
  const std::string minutes = "(" + count + "M" + seconds + ")?";
  const std::string clock =
      "T(" + count + "H" + minutes + "|" + count + "M" + seconds + "|" + count + "S)";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P(" + count + "W|" + count + "D(" + clock + ")?|" + clock + ")"},
      {"email", "[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@" + label + "(\\." + label + ")+"},
      {"hostname", label + "(\\." + label + "){0,3}"},
      {"ipv4", octet + "(\\." + octet + "){3}"},
      {"ipv6", "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}"},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"uri", "[a-z][a-z0-9+.-]*://" + label + "(\\." + label +
                  ")*(:[0-9]{1,4})?(/[A-Za-z0-9_.~-]*)*"
                  "(\\?[A-Za-z0-9_.~=&-]*)?(#[A-Za-z0-9_.~-]*)?"},
      {"json-pointer", "(/([A-Za-z0-9_.-]|~[01])*)*"},
  };
}

const Formats& formats() {
  static const Formats kFormats = make_formats();
  return kFormats;
}

}  // namespace

std::string_view format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : formats()) {
    if (name == format) return pattern;
  }
  return {};
}

std::string known_formats() {
  std::string names;
  for (const auto& [name, pattern] : formats()) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace tenon::grammar
