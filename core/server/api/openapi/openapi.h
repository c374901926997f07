// What the server offers, as an OpenAPI 3.1 document. Sampling parameters come from the table that
// requests are checked against (core/request/parameters.h).
#pragma once

#include <string>

namespace tenon::api {

std::string openapi_json(const std::string& version);

}  // namespace tenon::api
