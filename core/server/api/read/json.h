// JSON of requests and responses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/server/api/write/error.h"

namespace tenon::api {

using Json = nlohmann::ordered_json;

// A request's body: one object, at most 64 levels deep, with at most 4,096 keys in an object and
// each key once. The first fault ends the reading. Errors: status 400.
Outcome<Json> parse_body(std::string_view text);

// What to_text() wrote, or a text that may be no JSON or nested deeper than 64 levels: null then.
Json from_text(std::string_view text);

// On one line. Texts of models need not be UTF-8: what is not becomes U+FFFD.
std::string to_text(const Json& json);

// "data: {…}", an event of server-sent events; with a name, "event: name" before it.
void append_event(const Json& json, std::string& out, std::string_view name = {});

}  // namespace tenon::api
