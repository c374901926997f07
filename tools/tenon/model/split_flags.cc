#include "tools/tenon/model/split_flags.h"

#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {

Result<GgufSplit> SplitFlags::read() const {
  GgufSplit split;
  split.tensors = tensors.value_or(0);
  if (max_size.empty()) return split;
  // As llama-gguf-split has them, of a thousand each.
  const std::string digits = max_size.substr(0, max_size.size() - 1);
  const uint64_t unit = max_size.back() == 'M'   ? 1'000'000
                        : max_size.back() == 'G' ? 1'000'000'000
                                                 : 0;
  const WrittenNumber count = written_number(digits);
  constexpr int64_t kMost = int64_t{1} << 50;
  if (const auto* whole = std::get_if<int64_t>(&count); unit > 0 && whole != nullptr) {
    if (*whole > 0 && *whole <= kMost / static_cast<int64_t>(unit)) {
      split.max_bytes = static_cast<uint64_t>(*whole) * unit;
    }
  } else if (const auto bytes = parse_bytes(max_size); bytes && *bytes > 0 && *bytes <= kMost) {
    split.max_bytes = static_cast<uint64_t>(*bytes);
  }
  if (split.max_bytes > 0) return split;
  return invalid_argument("--split-max-size is " + shown_text(max_size) +
                          "; expected a size above 0, such as 500M, 2G or 2GiB");
}

}  // namespace tenon
