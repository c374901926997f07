#include "core/server/api/json.h"

#include <algorithm>
#include <vector>

#include "core/base/json_fault.h"
#include "core/base/nesting.h"
#include "core/base/quote.h"

namespace tenon::api {
namespace {

constexpr size_t kDeepest = 64;

// Readers of JSON differ in which of several members of one name they keep.
class TwiceSeen {
 public:
  bool operator()(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end && !open_.empty()) open_.pop_back();
    if (event != Json::parse_event_t::key || open_.empty()) return true;
    std::vector<std::string>& keys = open_.back();
    std::string key = parsed.get<std::string>();
    if (keys.size() >= kMostKeys) {
      too_many_ = true;
    } else if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      twice_ = std::move(key);
    } else {
      keys.push_back(std::move(key));
    }
    return true;
  }
  const std::string& twice() const { return twice_; }
  bool too_many() const { return too_many_; }

 private:
  // Each new key is held against the others.
  static constexpr size_t kMostKeys = 4096;
  std::vector<std::vector<std::string>> open_;
  std::string twice_;
  bool too_many_ = false;
};

}  // namespace

Outcome<Json> parse_body(std::string_view text) {
  if (text.empty()) return ApiError{.message = "the body is empty – expected a JSON object"};
  if (is_nested_deeper(text, kDeepest)) {
    return ApiError{.message = "the body is nested deeper than 64 levels – make it flatter"};
  }
  TwiceSeen seen;
  Json body;
  try {
    body = Json::parse(text.begin(), text.end(), [&](int, Json::parse_event_t event, Json& parsed) {
      return seen(event, parsed);
    });
  } catch (const std::exception& error) {
    return ApiError{.message = "the body is not JSON: " + json_fault(error.what())};
  }
  if (!body.is_object()) return ApiError{.message = "the body is not a JSON object"};
  if (seen.too_many()) return ApiError{.message = "an object of the body has more than 4096 keys"};
  if (!seen.twice().empty()) {
    return ApiError{.message = in_quotes(seen.twice()) + " stands there twice – keep one",
                    .param = one_line(seen.twice())};
  }
  return body;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_event(const Json& json, std::string& out, std::string_view name) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(to_text(json)).append("\n\n");
}

}  // namespace tenon::api
