// Sockets of ZeroMQ, whose library is loaded when the first is wanted (libzmq.so.5).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::server::zmq {

enum class Kind : int { publisher = 1, router = 6 };

// Not thread safe: one thread at a time. It goes before the library's context does, at exit.
class Socket {
 public:
  // At most `most_messages` wait for a peer that is slow; further ones are lost to it. Errors:
  // unsupported (there is no library), failed.
  static Result<std::unique_ptr<Socket>> open(Kind kind, int most_messages);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Errors: failed, with what the library says.
  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);
  // Where it was bound last, with the port that was free: "tcp://0.0.0.0:5557".
  std::string bound_endpoint() const;

  // One message of several parts; never waits. False: it is lost.
  bool send(std::span<const std::string_view> parts);
  // The parts of a message that is there; empty where there is none. A part is cut at 256 bytes,
  // and parts after the fourth are dropped.
  std::vector<std::string> receive();

  // Waits until a message can be received here, or `descriptor` can be read.
  void wait(int descriptor);
  // The same without a socket.
  static void wait_for(int descriptor);

 private:
  explicit Socket(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace tenon::server::zmq
