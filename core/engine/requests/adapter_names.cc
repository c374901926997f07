#include "core/engine/requests/adapter_names.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/request/parameters.h"

namespace tenon {

Result<uint64_t> find_adapter(const std::string& name, std::span<const std::string> known) {
  if (name.empty() || name == kNoAdapter) return uint64_t{0};
  const auto found = std::ranges::find(known, name);
  if (found != known.end()) return static_cast<uint64_t>(found - known.begin()) + 1;
  const std::string fault = "adapter is " + shown_text(name) + " – ";
  if (known.empty()) {
    return invalid_argument(fault +
                            "the pipeline has none – leave it out, or give its folder a name in "
                            "[adapters]");
  }
  return invalid_argument(fault + "the pipeline has " + join(known) + did_you_mean(name, known) +
                          " – name one of them, or leave it out");
}

}  // namespace tenon
