#include "core/contract/contract.h"

#include <algorithm>
#include <cstdio>

#include "core/base/result.h"

namespace tenon {
namespace {

constexpr size_t kMostMessageBytes = 2000;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < ' ' && c != '\n') || byte == 0x7f;
}

}  // namespace

Status wrote_behind(std::string_view method, std::string_view room) {
  return internal(std::string(method) + " wrote behind the room for " + std::string(room) +
                  " – whatever stood there is lost: use another plugin");
}

std::string plain_text(std::string_view text, size_t most_bytes) {
  if (text.data() == nullptr) return {};
  const std::string_view kept = text.substr(0, most_bytes);
  std::string plain;
  for (const char c : kept) {
    char escaped[8];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
    is_control(c) ? plain += escaped : plain += c;
  }
  if (kept.size() < text.size()) {
    // Not in the middle of a character.
    while (!plain.empty() && (plain.back() & 0xc0) == 0x80) plain.pop_back();
    if (!plain.empty() && (plain.back() & 0x80) != 0) plain.pop_back();
    plain += "… (" + std::to_string(text.size()) + " bytes)";
  }
  return plain;
}

Status readable(Status status) {
  if (status.ok()) return status;
  const std::string_view message = status.message();
  const StatusCode code = status.code();
  const bool known = code != StatusCode::ok && code <= StatusCode::internal;
  if (known && message.data() != nullptr && message.size() <= kMostMessageBytes &&
      std::none_of(message.begin(), message.end(), is_control)) {
    return status;
  }
  const std::string text = plain_text(message, kMostMessageBytes);
  return Status::error(known ? code : StatusCode::failed,
                       text.empty() ? "it failed without saying why" : text);
}

Status broken_promise(std::string_view method, const std::string& found,
                      const std::string& expected) {
  return internal(std::string(method) + " " + found + " – expected " + expected);
}

Status no_numerics() {
  return broken_promise("numerics", "is empty", "a text that tells its bits from other kernels'");
}

}  // namespace tenon
