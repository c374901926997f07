#include "core/server/grpc/struct_json.h"

#include <google/protobuf/util/json_util.h>

#include <string>

namespace tenon::server {

api::Json json_of(const google::protobuf::Struct& object) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(object, &text).ok()) return {};
  return api::from_text(text);
}

google::protobuf::Struct struct_of(const api::Json& object) {
  google::protobuf::Struct made;
  const auto read = google::protobuf::util::JsonStringToMessage(api::to_text(object), &made);
  if (!read.ok()) made.Clear();
  return made;
}

}  // namespace tenon::server
