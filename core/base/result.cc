#include "core/base/result.h"

#include "core/base/quote.h"

namespace tenon {

std::string message_of(const Status& status) {
  return printable(status.message());
}

Status with_context(std::string_view where, const Status& status) {
  return Status::error(status.code(), one_line(where, kMostPathBytes) + ": " + message_of(status));
}

Status copy(const Status& status) {
  return status.ok() ? Status() : Status::error(status.code(), message_of(status));
}

}  // namespace tenon
