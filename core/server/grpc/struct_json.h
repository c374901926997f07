// JSON objects in messages: google.protobuf.Struct, whose numbers are all doubles.
#pragma once

#include <google/protobuf/struct.pb.h>

#include "core/server/api/read/json.h"

namespace tenon::server {

// Whole numbers are whole numbers again. Null: it is nested more than 64 levels deep.
api::Json json_of(const google::protobuf::Struct& object);
// Of an object; what is none gives an empty one.
google::protobuf::Struct struct_of(const api::Json& object);

}  // namespace tenon::server
