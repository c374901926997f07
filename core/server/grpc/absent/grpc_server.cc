// What stands in place of the front in a build without gRPC.
#include "core/server/grpc/grpc_server.h"

namespace tenon::server {

class GrpcServer::State {};

Status GrpcServer::available() {
  return Status::error(StatusCode::unsupported,
                       "this build has no gRPC – install libgrpc++-dev and protobuf-compiler, and "
                       "configure with -DTENON_GRPC=ON");
}
Result<std::unique_ptr<GrpcServer>> GrpcServer::open(const GrpcOptions&, Service&) {
  return available();
}

GrpcServer::~GrpcServer() = default;
void GrpcServer::drain(std::chrono::milliseconds) {}
const std::string& GrpcServer::address() const {
  static const std::string kNone;
  return kNone;
}

}  // namespace tenon::server
