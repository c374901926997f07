#include "core/grammar/schema/schema_words.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenon::grammar {
namespace {

constexpr std::array<std::string_view, 24> kAnnotations = {
    "title",    "description", "default",         "examples",         "$comment",
    "$schema",  "$defs",       "definitions",     "$anchor",          "deprecated",
    "readOnly", "writeOnly",   "contentEncoding", "contentMediaType", "contentSchema",
    "$id",      "id",          "$vocabulary",     "$dynamicAnchor",   "$recursiveAnchor",
    "then",     "else",        "minContains",     "maxContains"};

constexpr std::array<std::string_view, 11> kRefused = {"not",
                                                       "if",
                                                       "patternProperties",
                                                       "propertyNames",
                                                       "contains",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "uniqueItems",
                                                       "unevaluatedItems",
                                                       "unevaluatedProperties"};

constexpr std::array<std::string_view, 31> kRead = {"type",
                                                    "enum",
                                                    "const",
                                                    "$ref",
                                                    "$dynamicRef",
                                                    "$recursiveRef",
                                                    "anyOf",
                                                    "oneOf",
                                                    "allOf",
                                                    "minLength",
                                                    "maxLength",
                                                    "minItems",
                                                    "maxItems",
                                                    "minProperties",
                                                    "maxProperties",
                                                    "minimum",
                                                    "maximum",
                                                    "multipleOf",
                                                    "exclusiveMinimum",
                                                    "exclusiveMaximum",
                                                    "format",
                                                    "pattern",
                                                    "properties",
                                                    "additionalProperties",
                                                    "required",
                                                    "prefixItems",
                                                    "items",
                                                    "additionalItems",
                                                    "nullable",
                                                    "$anchor",
                                                    "$defs"};

template <size_t N>
bool is_listed(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool differ_in_case_alone(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// One letter more, less or another, or two neighbours swapped.
bool one_edit_apart(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const std::string_view left(x, a.end()), right(y, b.end());
  if (left.size() + 1 == right.size()) return left == right.substr(1);
  if (left.size() != right.size() || left.empty()) return false;
  if (left.substr(1) == right.substr(1)) return true;
  return left.size() > 1 && left[0] == right[1] && left[1] == right[0] &&
         left.substr(2) == right.substr(2);
}

}  // namespace

void SchemaNotes::add(const std::string& what, const std::string& sentence) {
  if (known_.size() < kMost && known_.insert(what).second) sentences_.push_back(sentence);
}

bool says_nothing(std::string_view word) {
  return is_listed(kAnnotations, word) || word.starts_with("x-");
}

bool is_refused(std::string_view word) {
  return is_listed(kRefused, word);
}

std::optional<std::string> meant_word(std::string_view word) {
  constexpr size_t kShortest = 4;  // of shorter ones nobody can tell
  if (word.size() < kShortest) return std::nullopt;
  const auto look_in = [&](const auto& words) -> std::optional<std::string> {
    for (const std::string_view known : words) {
      const bool is_short = known.size() < kShortest;
      if (!is_short && (differ_in_case_alone(word, known) || one_edit_apart(word, known))) {
        return std::string(known);
      }
    }
    return std::nullopt;
  };
  const auto read = look_in(kRead);
  return read ? read : look_in(kRefused);
}

}  // namespace tenon::grammar
