// A regular expression of a tokenizer file, whatever it is, is refused, or finds matches in order
// and inside of the text, or gives up in time. The first line is the pattern, the rest the text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/tokenizer/regex/regex.h"
#include "core/unicode/utf8.h"
#include "tests/fuzz/target.h"

TENON_FUZZ_TARGET(regex, const uint8_t* data, size_t size) {
  using namespace tenon::tok;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const auto regex = Regex::compile(input.substr(0, line));
  if (!regex.ok()) return 0;
  const std::string unit = escape_bytes(input.substr(std::min(line + 1, input.size())));
  // Repeated, so that what is not linear shows.
  for (const size_t times : {size_t{1}, size_t{64}}) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += unit;
    Allowance allowance(text.size(), kTokenLimits);
    std::vector<Span> matches;
    if (!regex->find_all(text, allowance, matches).ok()) continue;
    size_t end = 0;
    for (const Span match : matches) {
      if (match.begin < end || match.end < match.begin || match.end > text.size()) std::abort();
      end = match.end;
    }
  }
  return 0;
}
