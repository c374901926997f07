#include "core/base/result.h"

#include "core/base/quote.h"

namespace tenon {

std::string message_of(const Status& status) {
  // What was cut once and got some context since is not cut again: it says how long it was.
  constexpr size_t kRoom = 4096;
  const size_t bytes = status.message().size();
  return printable(status.message(), bytes <= kMostMessageBytes + kRoom
                                         ? kMostMessageBytes + 2 * kRoom
                                         : kMostMessageBytes);
}

Status with_context(std::string_view where, const Status& status) {
  return Status::error(status.code(), one_line(where, kMostPathBytes) + ": " + message_of(status));
}

Status copy(const Status& status) {
  return status.ok() ? Status() : Status::error(status.code(), message_of(status));
}

}  // namespace tenon
