#include "tools/tenon/shell/input_limit.h"

#include <optional>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {

void InputLimit::add_to(Command command) {
  command.add_option(
      "--input-limit",
      [this](const std::string& text) {
        const std::optional<int64_t> bytes = parse_bytes(text);
        const bool fits = bytes && *bytes > 0;
        refuse("--input-limit", fits ? ""
                                     : in_quotes(text) +
                                           " is no size; expected a number with a unit, for "
                                           "example 1GiB");
        limit_bytes_ = static_cast<size_t>(*bytes);
      },
      "most bytes of standard input, for example 1GiB (default: " +
          format_bytes(static_cast<int64_t>(kMostInputBytes)) + ")");
}

Result<std::string> InputLimit::read() const {
  Result<std::string> text = read_standard_input(limit_bytes_);
  if (text.ok() || text.status().code() != StatusCode::invalid_argument) return text;
  return invalid_argument(message_of(text.status()) + ", or raise --input-limit");
}

}  // namespace tenon
