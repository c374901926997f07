#include "core/jinja/budget.h"

#include <string>

#include "core/base/text.h"

namespace tenon::chat {

// A value takes some 64 bytes wherever it lies.
bool Budget::allows_values(uint64_t count) {
  spend(count);
  if (count > (limits_.memory_bytes - std::min(live_, limits_.memory_bytes)) / 64) {
    exceed("bytes of memory");
  }
  return !is_exceeded();
}

Status Budget::status() const {
  if (!is_exceeded()) return Status();
  const std::string what = fault_;
  std::string limit = std::to_string(limits_.steps);
  if (what == "bytes of text") limit = approximate_bytes(limits_.text_bytes);
  if (what == "bytes of memory") limit = approximate_bytes(limits_.memory_bytes);
  if (what == "levels of nesting") limit = std::to_string(limits_.nesting);
  return failed("the chat template takes too many " + what + " – at most " + limit +
                " are allowed for one conversation – shorten the conversation or change the "
                "template");
}

}  // namespace tenon::chat
