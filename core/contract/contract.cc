#include "core/contract/contract.h"

#include "core/base/quote.h"
#include "core/base/result.h"

namespace tenon {
namespace {

constexpr size_t kMostPluginBytes = 2000;  // of an error of a plugin

}  // namespace

Status wrote_behind(std::string_view method, std::string_view room) {
  return internal(std::string(method) + " wrote beyond the room for " + std::string(room) +
                  " – whatever stood there is lost: use another plugin");
}

Status wrote_into(std::string_view method, std::string_view what) {
  return broken_promise(method, "changed the " + std::string(what) + " that it was shown",
                        "that it only reads them: use another plugin");
}

Status CheckedCall::computes_otherwise() {
  before_->restore();
  const std::string_view call = call_text(name_);
  return broken_promise(call.substr(0, call.find(' ')),
                        "left this thread computing with another floating-point state",
                        "the rounding, subnormals and traps that it found");
}

Status readable_error(const Status& status) {
  const StatusCode code = status.code();
  const bool known = code != StatusCode::ok && code <= StatusCode::internal;
  const std::string text = printable(status.message(), kMostPluginBytes);
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
