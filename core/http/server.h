// An HTTP/1.1 server: connections as coroutines on one I/O thread. What requests mean is the
// handler's business.
//
// Keep-alive, pipelining, HTTP/1.0 (no chunks), bodies with Content-Length or chunked,
// Expect: 100-continue, streamed responses. Whatever could be understood in two ways (both lengths,
// a repeated one, another transfer coding) is 400, and the connection is closed.
//
// A connection that ends while its request is being answered is noticed at once. Half-closed counts
// as ended: clients of HTTP wait for their answer with both directions open.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>  // Asio's coroutines need it before them
#include <vector>

#include "core/base/result.h"
#include "core/http/message.h"

namespace tenon::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::optional<uint16_t> port = 8000;  // absent = no TCP; 0 = one that is free
  std::string socket_path = {};         // of a unix socket; empty = none
  std::string tls_certificate = {};     // files of PEM, for TLS on the port; the unix socket, whose
  std::string tls_key = {};             // file says who may use it, has none. Empty = no TLS
  uint32_t connections = 16384;         // at once; more wait to be accepted
  size_t header_bytes = 16 << 10;
  size_t body_bytes = size_t{16} << 20;
  std::chrono::milliseconds handshake_timeout{10'000};  // of TLS
  std::chrono::milliseconds header_timeout{10'000};     // from its first byte to its last
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between requests
  std::chrono::milliseconds write_timeout{60'000};  // without a byte taken
};

// A request and the way back to whoever sent it. It may be dropped without an answer: then the
// answer is status 500.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Once; what comes later is dropped. [any thread]
  virtual void answer(Response response) = 0;
  // The response's stream has something to take. [any thread]
  virtual void wake() = 0;
  // `gone` is called on the I/O thread, once, if the connection ends before the response has. [any
  // thread]
  virtual void watch(std::function<void()> gone) = 0;
};

// All of them are called on the I/O thread and return soon.
struct Handlers {
  // A look at the head alone: what is refused here needs no body. Null lets it pass.
  std::function<std::optional<Response>(const Request&)> gate;
  std::function<void(Request, std::shared_ptr<Exchange>)> handle;
  // The response to what is no proper request.
  std::function<Response(unsigned status, const std::string& message)> refuse;
};

struct ServerFigures {
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint32_t> open{0};
};

class Server {
 public:
  // Binds and listens. Errors: invalid_argument (the address is none; the certificate or its key
  // cannot be used), failed (the address is in use, or not allowed).
  static Result<std::unique_ptr<Server>> open(const ServerOptions& options, Handlers handlers);
  // Every Exchange must be gone by now.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves on the calling thread until drained.
  void run();
  // Accepts no more, ends connections without a request at once and others with their response;
  // what is left after `limit` is cut off. [any thread]
  void drain(std::chrono::milliseconds limit);

  // Reads the certificate and its key again, for connections that begin from now on. Where that
  // fails, nothing changes. Errors: invalid_argument. [any thread]
  Status renew_certificate();

  // "https://127.0.0.1:8000", "unix:/run/tenon.sock", one each.
  const std::vector<std::string>& addresses() const { return addresses_; }
  const ServerFigures& figures() const;

 private:
  class State;
  explicit Server(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
  std::vector<std::string> addresses_;
};

}  // namespace tenon::http
