// One connection: reads requests, hands them over, writes responses, in order. Everything here runs
// on the I/O thread.
#pragma once

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "core/http/server.h"
#include "core/http/wire.h"

namespace tenon::http {

using SteadyTime = std::chrono::steady_clock::time_point;

// Wakes one coroutine.
class Signal {
 public:
  explicit Signal(boost::asio::io_context& io) : timer_(io, SteadyTime::max()) {}
  Async<void> wait();
  void notify() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

class RequestReader;

// A request that is being answered.
struct Pending {
  std::optional<Response> response;
  bool answered = false;
  bool gone = false;
  std::function<void()> on_gone;
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  // `tls` may be null: the connection is in the open.
  Connection(boost::asio::io_context& io, Socket socket, TlsContext tls, std::string peer,
             const ServerOptions& options, const Handlers& handlers);

  // Until the connection ends.
  Async<void> serve();

  // Ends what has waited for too long. Called now and then.
  void look(SteadyTime now);
  // No further request: one that is being answered is the last.
  void drain();
  void cut();

 private:
  class Reply;
  enum class Waiting : uint8_t {
    nothing,
    for_handshake,
    for_request,
    for_header,
    for_body,
    to_write
  };
  struct Received {
    Request request;
    bool keep_alive = false;
    bool has_rest = false;            // of the body, which was not read
    std::optional<Response> refused;  // by its head; has been sent
  };

  Async<bool> secure();
  Async<bool> receive(Received& received);
  Async<bool> receive_head(RequestReader& reader, Received& received);
  Async<bool> receive_body(RequestReader& reader, Request& request);
  Async<bool> wait_for_bytes();
  Async<bool> refuse(unsigned status, std::string message);
  Async<bool> answer(Received received);
  Async<void> watch(std::shared_ptr<Pending> pending);
  Async<void> stop_watching();
  Async<bool> send(Received& received, Response response);
  Async<bool> send_stream(BodyStream& stream, bool chunked);
  Async<bool> write(std::string bytes);
  Async<void> linger();
  Async<void> part();
  void wait_at_most(Waiting for_what, std::chrono::milliseconds time);
  void give(Pending& pending, Response response);
  void gone(Pending& pending);
  void close();

  boost::asio::io_context& io_;
  Wire wire_;
  TlsContext tls_;
  const std::string peer_;
  const ServerOptions& options_;
  const Handlers& handlers_;
  boost::beast::flat_buffer buffer_;
  Signal changed_;
  std::shared_ptr<Pending> pending_;
  Waiting waiting_ = Waiting::nothing;
  SteadyTime deadline_ = SteadyTime::max();
  bool timed_out_ = false;
  bool watching_ = false;
  bool draining_ = false;
  bool is_cut_short_ = false;  // the peer did not get what it was to get
};

}  // namespace tenon::http
