// What requests and errors look like, as JSON Schema, for the OpenAPI document. It says what the
// readers of requests take, and no more.
#pragma once

#include "core/server/api/read/json.h"

namespace tenon::api {

// {"$ref": "#/components/schemas/Chat"}
Json schema_ref(const char* name);
// All of them by name.
Json request_schemas();

}  // namespace tenon::api
