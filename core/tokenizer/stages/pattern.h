// What splits and replacements search for: a literal string, a regular expression, or characters
// of a class.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tokenizer/allowance.h"
#include "core/tokenizer/regex/regex.h"

namespace tenon::tok {

using RunePredicate = bool (*)(char32_t);

class Pattern {
 public:
  static Result<Pattern> literal(std::string_view text);
  static Result<Pattern> regex(std::string_view oniguruma_pattern);
  // Every single character that satisfies `predicate` is a match.
  static Pattern runes(RunePredicate predicate) { return Pattern(predicate); }

  // The string that is searched for; empty where it is another kind of pattern.
  std::string_view text() const;

  // Appends all matches, left to right and without overlap. Threads and errors as Regex::find_all.
  Status find_all(std::string_view text, Allowance& allowance, std::vector<Span>& matches) const;

 private:
  using Kind = std::variant<std::string, Regex, RunePredicate>;
  explicit Pattern(Kind kind) : kind_(std::move(kind)) {}
  Kind kind_;
};

// Appends all places where `wanted`, which is not empty, stands.
void find_literal(std::string_view wanted, std::string_view text, std::vector<Span>& matches);

// `text` with `content` in the place of every match. Error: as Allowance::check_bytes.
Result<std::string> substituted(std::string_view text, const std::vector<Span>& matches,
                                std::string_view content, const Allowance& allowance);

// What becomes of the matches when a text is split at them; names as in tokenizer.json.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// Appends the non-empty pieces that `behavior` makes of a text of `text_bytes`, given its matches.
// With `invert`, the stretches between matches count as the matches.
void split_at(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
              bool invert, std::vector<Span>& pieces);

}  // namespace tenon::tok
