// Regular expressions of tokenizer files, in the dialect of the engine that wrote them.
//
// tokenizer.json holds patterns for Oniguruma (its Ruby syntax); PCRE2 reads most of them as they
// are, but differs in places that matter: nested classes and && inside [...], \h, \v, \s and \w,
// possessive intervals, inline options, script names. The translation spells those out and refuses
// by name what has no equivalent (back references, subexpression calls, …).
// Follows Oniguruma's doc/RE for the source side and pcre2pattern(3) for the target.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::tok {

// Where a translated pattern calls back; the values are the numbers of PCRE2's callouts.
enum class Callout {
  match_starts = 1,
  search_start = 2,   // \G: holds where the search starts, which only the caller knows
  before_repeat = 3,  // around whatever may be repeated often
  after_repeat = 4,
};

// The pattern for PCRE2, to be compiled with UTF, UCP, MULTILINE and newline = LF.
Result<std::string> translate_oniguruma(std::string_view pattern);

}  // namespace tenon::tok
