// Any bytes in a message: what is shown is UTF-8 without a control character, and never long.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "tests/fuzz/target.h"

namespace {

constexpr size_t kLongestEnding = 40;  // "… (… bytes)"

void check(std::string_view shown, bool line_ends, size_t limit_bytes) {
  if (shown.size() > limit_bytes + kLongestEnding || !tenon::is_utf8(shown)) std::abort();
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0x7F || (byte < 0x20 && !(line_ends && c == '\n'))) std::abort();
  }
}

}  // namespace

TENON_FUZZ_TARGET(quote, const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const size_t limit_bytes : {size_t{0}, size_t{1}, size_t{7}, tenon::kMostQuotedBytes}) {
    check(tenon::one_line(text, limit_bytes), false, limit_bytes);
    check(tenon::printable(text, limit_bytes), true, limit_bytes);
  }
  const std::string once = tenon::one_line(text);
  // What is plain already stays as it is, so that escaping twice does no harm.
  if (tenon::one_line(once, 2 * tenon::kMostQuotedBytes) != once) std::abort();
  return 0;
}
