// A compiled regular expression of a tokenizer file (see regex_syntax.h), run by PCRE2's JIT.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/tokenizer/allowance.h"

namespace tenon::tok {

// A range of bytes [begin, end) of some text.
struct Span {
  size_t begin;
  size_t end;
  friend bool operator==(Span, Span) = default;
};

// Immutable after compile(): any number of threads may use one at the same time.
class Regex {
 public:
  // Errors: unsupported (no equivalent here), invalid_argument (not a regular expression).
  static Result<Regex> compile(std::string_view oniguruma_pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Appends all matches, left to right and without overlap; an empty match directly after another
  // match is skipped. `text` is structurally valid UTF-8 and is all that lookarounds see.
  // Error: failed, when matching takes more steps than `allowance` has.
  Status find_all(std::string_view text, Allowance& allowance, std::vector<Span>& matches) const;

 private:
  struct Compiled;
  class Search;
  explicit Regex(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace tenon::tok
