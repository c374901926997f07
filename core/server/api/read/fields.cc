#include "core/server/api/read/fields.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/server/api/parameters/answer_json.h"

namespace tenon::api {

std::string Fields::path(std::string_view name) const {
  const std::string shown = one_line(name);
  return where_.empty() ? shown : where_ + "." + shown;
}

const Json* Fields::take(std::string_view name) {
  asked_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::flag(std::string_view name, bool otherwise) {
  const Json* value = take(name);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  refuse(name, "must be true or false");
  return otherwise;
}

std::string Fields::text(std::string_view name, std::string otherwise) {
  const Json* value = take(name);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  refuse(name, "must be a text");
  return otherwise;
}

std::optional<int64_t> Fields::whole(std::string_view name, int64_t least, int64_t most) {
  const Json* value = take(name);
  if (value == nullptr) return std::nullopt;
  const std::string range =
      "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const auto number = whole_json(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(name, range);
  return std::nullopt;
}

void Fields::note_ignored(std::string_view name) {
  // They go into a response's head, which a client's lists must not fill.
  constexpr size_t kMost = 64;
  if (ignored_.size() >= kMost) name = "others";
  if (std::find(ignored_.begin(), ignored_.end(), name) == ignored_.end()) {
    ignored_.emplace_back(name);
  }
}

void Fields::absorb(const Fields& inner) {
  if (inner.fault()) refuse(*inner.fault());
  for (const std::string& name : inner.ignored()) note_ignored(name);
}

void Fields::refuse(std::string_view name, const std::string& sentence, std::string code) {
  refuse({.message = "\"" + path(name) + "\" " + sentence,
          .param = path(name),
          .code = std::move(code)});
}

void Fields::refuse(ApiError error) {
  if (!fault_) fault_ = std::move(error);
}

void Fields::settle(Place place, const std::string& name, const Json& value) {
  const FieldRule* rule = find_rule(place, name);
  if (rule == nullptr || rule->use == FieldUse::taken) {
    std::vector<std::string> known(asked_.begin(), asked_.end());
    return refuse(name, "is not known here" + did_you_mean(name, known) + " – leave it out",
                  "unknown_parameter");
  }
  if (rule->use == FieldUse::echoed || rule->is_neutral(value)) return;
  if (rule->use == FieldUse::ignored) return note_ignored(name);
  refuse(name, refusal_of(*rule, value));
}

void Fields::settle(Place place) {
  for (const auto& [name, value] : object_.items()) {
    if (fault_) return;
    if (!value.is_null() && asked_.count(name) == 0) settle(place, name, value);
  }
}

}  // namespace tenon::api
