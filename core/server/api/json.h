// JSON of requests and responses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/server/api/error.h"

namespace tenon::api {

using Json = nlohmann::ordered_json;

// A request's body: one object, at most 64 levels deep, each key once. Errors: status 400.
Outcome<Json> parse_body(std::string_view text);

// On one line. Texts of models need not be UTF-8: what is not becomes U+FFFD.
std::string to_text(const Json& json);

// "data: {…}", an event of server-sent events; with a name, "event: name" in front of it.
void append_event(const Json& json, std::string& out, std::string_view name = {});

}  // namespace tenon::api
