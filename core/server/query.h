// The query of a request's target: "model=NAME&since=STEP".
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/server/api/write/error.h"

namespace tenon::server {

using Query = std::map<std::string, std::string, std::less<>>;

// By name, percent-decoded; of a name that is there twice the last value. Errors: status 400, where
// a field is no NAME=VALUE or is none of `known`.
api::Outcome<Query> read_query(std::string_view query, std::span<const std::string_view> known);
// The value of that name, or an empty one.
std::string query_value(const Query& query, std::string_view name);

}  // namespace tenon::server
