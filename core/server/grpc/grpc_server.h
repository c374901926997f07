// vllm.Inference over gRPC, in addition to HTTP: another way to the same service, with its keys,
// limits, log and metrics. Built if TENON_GRPC is on; otherwise open() says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace tenon::server {

class Service;

struct GrpcOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;                 // 0 = one that is free
  std::string tls_certificate = {};  // files of PEM; empty = no TLS. Read once
  std::string tls_key = {};
  size_t message_bytes = size_t{16} << 20;
};

class GrpcServer {
 public:
  // Whether this build has it. Error: unsupported.
  static Status available();
  // Listens, and serves on threads of gRPC's own. `service` is borrowed and goes after this.
  // Errors: unsupported (built without), failed (no certificate there, the address).
  static Result<std::unique_ptr<GrpcServer>> open(const GrpcOptions& options, Service& service);
  // Cuts off what still runs, unless a drain is under way: that is waited for.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Takes no more calls; what runs is cut off after `limit`. Returns at once. [any thread]
  void drain(std::chrono::milliseconds limit);
  const std::string& address() const;  // "127.0.0.1:50051"

 private:
  class State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenon::server
