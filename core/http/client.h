// An HTTP/1.1 client of one server: requests as coroutines on the thread that calls run(),
// connections kept and used again. What responses mean is the handlers' business.
//
// A server that is hostile can waste its own connection's time alone: heads and bodies are bounded,
// and silence is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/http/address.h"
#include "core/http/response_reader.h"

namespace tenon::http {

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{10'000};   // also for the host's name, and for TLS
  std::chrono::milliseconds silence_timeout{300'000};  // without a byte going either way
  std::chrono::milliseconds total_timeout{0};          // of one request; 0 = none
  ResponseLimits limits = {};
  // Whose certificates are believed, a file of PEM, where the address says TLS; empty = those that
  // the system trusts.
  std::string authorities = {};
};

struct Outgoing {
  std::string method = "GET";
  std::string path = {};           // after the address's base; of visible ASCII
  std::vector<Field> fields = {};  // besides Host and Content-Length; without control characters
  std::string body = {};
};

enum class Fault : uint8_t {
  none = 0,
  connect = 1,   // there was no connection, or none that could be trusted
  timeout = 2,   // one of the options' times was over
  closed = 3,    // the connection ended before the response did
  protocol = 4,  // what came is no HTTP, or beyond a limit
  stopped = 5,   // Client::stop(), or the handler had enough
};

struct Ending {
  Fault fault = Fault::none;
  std::string message = {};  // what was wrong, in words
};

// Everything is called on the thread of run(). Times are those of the monotonic clock (WallClock).
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  // Names of fields are in lower case.
  virtual void head(unsigned status, const std::vector<Field>& fields, int64_t now_ns) = 0;
  // False where it wants no more: the exchange ends as `stopped`.
  virtual bool body(std::string_view piece, int64_t now_ns) = 0;
  // Once, whatever happened. It may send the next request.
  virtual void end(const Ending& ending, int64_t now_ns) = 0;
};

class Client {
 public:
  // Looks the host up and connects with the first request. Errors: invalid_argument (authorities
  // that cannot be read, or that an address without TLS has no use for).
  static Result<std::unique_ptr<Client>> open(const Address& address, const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Every request has a connection to itself: one that is free, or a new one. A kept connection
  // that ends before a byte of the response is replaced by a new one, once.
  // [before run(), or its thread]
  void send(Outgoing request, std::shared_ptr<ResponseHandler> handler);
  // Calls at that time of the monotonic clock, never earlier. [likewise]
  void at(int64_t time_ns, std::function<void()> call);

  // Until nothing is left to do; may be called again.
  void run();
  // Ends all requests, also those that are sent later; what at() still has is dropped. [any thread]
  void stop();

 private:
  class State;
  explicit Client(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenon::http
