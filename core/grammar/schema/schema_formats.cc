#include <utility>
#include <vector>

#include "core/grammar/schema/schema_constraint.h"

namespace tenon::grammar {
namespace {

using Formats = std::vector<std::pair<std::string, std::string>>;

// All eight groups, or fewer with "::" in place of what is zero.
std::string ipv6_pattern() {
  const std::string group = "[0-9a-f]{1,4}", more = "(:" + group + ")";
  std::string pattern = group + more + "{7}|::(" + group + more + "{0,5})?";
  for (int left = 0; left < 6; ++left) {
    pattern += "|" + group + more + "{" + std::to_string(left) + "}::";
    const int right = 5 - left;
    if (right > 0) pattern += "(" + group + more + "{0," + std::to_string(right - 1) + "})?";
  }
  return pattern;
}

// Regular expressions of literals, escapes, classes, groups three deep, and quantifiers.
std::string regex_pattern() {
  const std::string item = "([A-Za-z0-9_ ]|a-z|A-Z|0-9|\\\\[dws.-])";
  const std::string single =
      "[A-Za-z0-9_ ,:;@%&=<>'/~`#!\"-]|\\.|\\\\[dDwWsS.*+?^$|()\\[\\]{}\\\\/]|\\[\\^?" + item +
      "+\\]";
  const std::string quantifier = "([*+?]|\\{[1-9]\\}|\\{[1-9],\\}|\\{[0-4],[5-9]\\})?";
  std::string group = "(" + single + ")";
  for (int depth = 0; depth < 3; ++depth) {
    const std::string inner = "(" + group + quantifier + ")+";
    group = "(" + single + "|\\((\\?:)?" + inner + "(\\|" + inner + ")*\\))";
  }
  const std::string inner = "(" + group + quantifier + ")+";
  return "\\^?" + inner + "(\\|" + inner + ")*\\$?";
}

// Each is a part of what its standard allows, so that every validator agrees.
Formats make_formats() {
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  // No two hyphens in a row: "xn--" begins names whose letters are encoded. Four of them, and the
  // points between them, have no more than 253 characters.
  const std::string label = "[a-z0-9](-?[a-z0-9]){0,30}";
  const std::string host = label + "(\\." + label + "){0,3}";
  const std::string date =
      "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"
      "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|"
      "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?"
      "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string count = "[0-9]{1,6}";
  const std::string seconds = "(" + count + "S)?";
  const std::string minutes = "(" + count + "M" + seconds + ")?";
  const std::string clock =
      "T(" + count + "H" + minutes + "|" + count + "M" + seconds + "|" + count + "S)";
  const std::string days = count + "D";
  const std::string months = count + "M(" + days + ")?";
  const std::string period = "(" + count + "Y(" + months + ")?|" + months + "|" + days + ")";
  const std::string name = "[A-Za-z0-9_+-]{1,20}";
  const std::string word = "([A-Za-z0-9_.~!$&'()*+,;=:@-]|%[0-9A-F]{2})*";
  const std::string segment = "[A-Za-z0-9_.~-]+";
  const std::string email = name + "(\\." + name + "){0,2}@" + label + "(\\." + label + "){1,3}";
  const std::string behind_path = "(\\?" + word + ")?(#" + word + ")?";
  const std::string uri =
      "[a-z][a-z0-9+.-]*://" + host + "(:[0-9]{1,4})?(/" + word + ")*" + behind_path;
  const std::string relative = "(/" + segment + ")+" + behind_path + "|#" + word;
  const std::string json_pointer = "(/([ -.0-}]|~[01])*)*";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P(" + count + "W|" + period + "(" + clock + ")?|" + clock + ")"},
      {"email", email},
      {"hostname", host},
      {"ipv4", octet + "(\\." + octet + "){3}"},
      {"ipv6", ipv6_pattern()},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"uri", uri},
      {"json-pointer", json_pointer},
      {"relative-json-pointer", "(0|[1-9][0-9]{0,3})(#|" + json_pointer + ")"},
      // What needs no letters beyond ASCII is right by these too.
      {"idn-email", email},
      {"idn-hostname", host},
      {"iri", uri},
      {"uri-reference", uri + "|" + relative},
      {"iri-reference", uri + "|" + relative},
      {"uri-template", uri + "|" + relative},
      {"regex", regex_pattern()},
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

}  // namespace tenon::grammar
