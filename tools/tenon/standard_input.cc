#include "tools/tenon/standard_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/flags.h"

namespace tenon {

Result<std::string> read_standard_input(size_t limit_bytes) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    const ssize_t count = ::read(STDIN_FILENO, text.data() + before, kPieceBytes);
    if (count < 0 && errno != EINTR) {
      return failed("cannot read standard input: " + std::string(std::strerror(errno)));
    }
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (text.size() > limit_bytes) {
      return invalid_argument("standard input has more than " +
                              format_bytes(static_cast<int64_t>(limit_bytes)) +
                              ", which is all that is read here; give less, or in parts");
    }
  }
}

void InputLimit::add_to(CLI::App& command) {
  command.add_option_function<std::string>(
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
