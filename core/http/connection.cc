#include "core/http/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/base/log.h"
#include "core/http/head_check.h"
#include "core/http/request_reader.h"

namespace tenon::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// Of requests that are sent before their forerunners are answered.
constexpr size_t kPipelinedBytes = 64 << 10;
constexpr size_t kBufferBytes = 256 << 10;
constexpr size_t kReadBytes = 4 << 10;
// Of a connection under TLS that waits for a request: there are many of them.
constexpr size_t kIdleBytes = 256;
// The first byte of TLS: a record of the handshake.
constexpr unsigned char kHandshakeRecord = 22;
// A body that nobody wants is read to its end up to here, so that the connection can go on.
constexpr uint64_t kSmallBody = 64 << 10;
constexpr size_t kLingerBytes = 1 << 20;
constexpr std::chrono::milliseconds kLingerTime{1000};

auto into(Error& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

}  // namespace

Async<void> Signal::wait() {
  Error ignored;
  co_await timer_.async_wait(into(ignored));
}

// What the handler holds. Any thread may: everything is done on the I/O thread.
class Connection::Reply final : public Exchange {
 public:
  Reply(std::shared_ptr<Connection> connection, std::shared_ptr<Pending> pending)
      : connection_(std::move(connection)), pending_(std::move(pending)) {}
  // Here too, so that the connection ends on the I/O thread.
  ~Reply() override {
    asio::io_context& io = connection_->io_;
    asio::post(io, [connection = std::move(connection_), pending = std::move(pending_)] {
      if (pending->answered) return;
      connection->give(*pending, connection->handlers_.refuse(500, "the request was dropped"));
    });
  }

  void answer(Response response) override {
    asio::post(connection_->io_, [connection = connection_, pending = pending_,
                                  response = std::move(response)]() mutable {
      connection->give(*pending, std::move(response));
    });
  }
  void wake() override {
    asio::post(connection_->io_, [connection = connection_] { connection->changed_.notify(); });
  }
  void watch(std::function<void()> on_gone) override {
    asio::post(connection_->io_, [pending = pending_, on_gone = std::move(on_gone)]() mutable {
      if (pending->gone) return on_gone();
      pending->on_gone = std::move(on_gone);
    });
  }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Pending> pending_;
};

Connection::Connection(asio::io_context& io, Socket socket, TlsContext tls, std::string peer,
                       const ServerOptions& options, const Handlers& handlers)
    : io_(io),
      wire_(std::move(socket)),
      tls_(std::move(tls)),
      peer_(std::move(peer)),
      options_(options),
      handlers_(handlers),
      buffer_(kBufferBytes),
      changed_(io) {}

void Connection::wait_at_most(Waiting for_what, std::chrono::milliseconds time) {
  waiting_ = for_what;
  deadline_ =
      for_what == Waiting::nothing ? SteadyTime::max() : std::chrono::steady_clock::now() + time;
}

void Connection::look(SteadyTime now) {
  if (now < deadline_) return;
  deadline_ = SteadyTime::max();
  timed_out_ = true;
  wire_.cancel();
}

void Connection::drain() {
  draining_ = true;
  const bool is_between = waiting_ == Waiting::for_handshake || waiting_ == Waiting::for_request ||
                          waiting_ == Waiting::for_header;
  if (is_between) wire_.cancel();
}

void Connection::cut() {
  draining_ = true;
  if (pending_) gone(*pending_);
  close();
  changed_.notify();
}

void Connection::close() {
  wire_.close();
}

void Connection::give(Pending& pending, Response response) {
  if (pending.answered) return;
  pending.answered = true;
  pending.response = std::move(response);
  changed_.notify();
}

void Connection::gone(Pending& pending) {
  if (pending.gone) return;
  pending.gone = true;
  if (pending.on_gone) std::exchange(pending.on_gone, nullptr)();
}

Async<void> Connection::serve() {
  const auto self = shared_from_this();
  bool go_on = tls_ == nullptr || co_await secure();
  while (go_on && !draining_ && wire_.socket().is_open()) {
    Received received;
    go_on = co_await receive(received);
    if (go_on && !received.refused) go_on = co_await answer(std::move(received));
  }
  if (wire_.is_secret() && !is_cut_short_) co_await part();
  wait_at_most(Waiting::nothing, {});
  close();
}

// Who speaks HTTP to a port of TLS is told so, in the open.
Async<bool> Connection::secure() {
  wait_at_most(Waiting::for_handshake, options_.handshake_timeout);
  const auto first = co_await wire_.peek();
  if (!first) co_return false;
  if (*first != kHandshakeRecord) {
    co_return co_await refuse(400, "this port speaks TLS – write https:// in place of http://");
  }
  Error error;
  co_await wire_.accept_tls(std::move(tls_), error);
  is_cut_short_ = static_cast<bool>(error);
  co_return !error;
}

Async<bool> Connection::wait_for_bytes() {
  if (buffer_.size() > 0) co_return true;
  buffer_.clear();
  buffer_.shrink_to_fit();
  wait_at_most(Waiting::for_request, options_.idle_timeout);
  Error error;
  if (wire_.is_secret()) {
    // Bytes that the socket no longer has may wait to be deciphered.
    const size_t count = co_await wire_.async_read_some(buffer_.prepare(kIdleBytes), into(error));
    buffer_.commit(count);
  } else {
    co_await wire_.socket().async_wait(Socket::wait_read, into(error));
  }
  co_return !error;
}

// False where the connection is to be closed.
Async<bool> Connection::receive(Received& received) {
  if (!co_await wait_for_bytes()) co_return false;
  RequestReader reader(wire_, buffer_, options_);
  if (!co_await receive_head(reader, received)) co_return false;
  Request& request = received.request;
  const bool is_expected = request.find("expect") != nullptr;
  received.refused = handlers_.gate(request);
  if (received.refused) {
    const auto length = reader.body_bytes();
    const bool is_small = reader.is_done() || (length && *length <= kSmallBody);
    received.has_rest = !is_small || (is_expected && !reader.is_done());
  }
  if (!received.has_rest && !reader.is_done()) {
    if (is_expected && !co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    if (!co_await receive_body(reader, request)) co_return false;
  }
  wait_at_most(Waiting::nothing, {});
  if (!received.refused) co_return true;
  received.keep_alive = received.keep_alive && !received.has_rest;
  const bool is_sent = co_await send(received, *received.refused);
  if (received.has_rest) co_await linger();
  co_return is_sent&& received.keep_alive;
}

Async<bool> Connection::receive_head(RequestReader& reader, Received& received) {
  wait_at_most(Waiting::for_header, options_.header_timeout);
  Error error;
  HeadFault fault = co_await reader.read_head(error);
  if (timed_out_) co_return co_await refuse(408, "the head of the request took too long");
  if (error) co_return false;
  if (fault.status == 0) {
    received.request = reader.head();
    received.request.peer = peer_;
    received.keep_alive = reader.keep_alive();
    fault = check_head(received.request, reader.version());
  }
  if (fault.status != 0) co_return co_await refuse(fault.status, fault.message);
  co_return true;
}

Async<bool> Connection::receive_body(RequestReader& reader, Request& request) {
  wait_at_most(Waiting::for_body, options_.body_timeout);
  Error error;
  const HeadFault fault = co_await reader.read_body(error);
  if (timed_out_) co_return co_await refuse(408, "the body of the request took too long");
  if (error) co_return false;
  if (fault.status != 0) co_return co_await refuse(fault.status, fault.message);
  request.body = reader.take_body();
  co_return true;
}

Async<bool> Connection::refuse(unsigned status, std::string message) {
  timed_out_ = false;
  Received nobody;
  co_await send(nobody, handlers_.refuse(status, message));
  co_await linger();
  co_return false;
}

Async<bool> Connection::answer(Received received) {
  const auto pending = std::make_shared<Pending>();
  pending_ = pending;
  const bool is_1_0 = received.request.is_1_0;
  const bool is_head = received.request.method == "HEAD";
  handlers_.handle(std::move(received.request),
                   std::make_shared<Reply>(shared_from_this(), pending));
  received.request = Request();
  received.request.is_1_0 = is_1_0;
  received.request.method = is_head ? "HEAD" : "";
  watching_ = true;
  asio::co_spawn(io_, watch(pending), asio::detached);
  while (!pending->response && !pending->gone) co_await changed_.wait();
  bool is_sent = false;
  if (!pending->gone) is_sent = co_await send(received, *std::move(pending->response));
  // Whoever got all of it may hang up: that the connection ends here makes nobody gone.
  if (!is_sent) gone(*pending);
  pending->answered = true;
  pending->on_gone = nullptr;
  pending_ = nullptr;
  co_await stop_watching();
  co_return is_sent&& received.keep_alive && !pending->gone;
}

// Reads on while a request is being answered: to see the connection end, and to keep what a client
// sends ahead.
Async<void> Connection::watch(std::shared_ptr<Pending> pending) {
  const auto self = shared_from_this();
  while (buffer_.size() < kPipelinedBytes) {
    Error error;
    const size_t count = co_await wire_.async_read_some(buffer_.prepare(kReadBytes), into(error));
    buffer_.commit(count);
    if (error == asio::error::operation_aborted) break;
    if (!error) continue;
    gone(*pending);
    break;
  }
  watching_ = false;
  changed_.notify();
}

Async<void> Connection::stop_watching() {
  if (watching_) wire_.cancel();
  while (watching_) co_await changed_.wait();
}

// Whether all of it was written. `received` says afterwards whether the connection stays.
Async<bool> Connection::send(Received& received, Response response) {
  const bool is_1_0 = received.request.is_1_0;
  const bool is_head = received.request.method == "HEAD";
  const bool ends_by_closing = is_1_0 && response.stream != nullptr;
  received.keep_alive = received.keep_alive && !draining_ && !ends_by_closing;
  HeadOptions head{.is_1_0 = is_1_0, .keep_alive = received.keep_alive};
  if (response.stream == nullptr) head.length = static_cast<int64_t>(response.body.size());
  std::string bytes = response_head(response, head);
  if (!is_head) bytes += response.body;
  if (!co_await write(std::move(bytes))) co_return false;
  if (response.stream != nullptr && !is_head) {
    if (!co_await send_stream(*response.stream, !is_1_0)) co_return false;
  }
  co_return true;
}

Async<bool> Connection::send_stream(BodyStream& stream, bool chunked) {
  for (;;) {
    std::string piece;
    const BodyStream::Next next = stream.take(piece);
    if (chunked && !piece.empty()) piece = chunk(piece);
    // The end goes with the last piece: whoever reads no further than that has read everything.
    if (chunked && next == BodyStream::Next::end) piece += "0\r\n\r\n";
    if (!piece.empty()) {
      if (!co_await write(std::move(piece))) co_return false;
    } else if (next == BodyStream::Next::more) {
      if (pending_ && pending_->gone) co_return false;
      co_await changed_.wait();
    }
    if (next == BodyStream::Next::broken) {
      is_cut_short_ = true;
      co_return false;
    }
    if (next == BodyStream::Next::end) co_return true;
  }
}

Async<bool> Connection::write(std::string bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    wait_at_most(Waiting::to_write, options_.write_timeout);
    Error error;
    written += co_await wire_.async_write_some(
        asio::buffer(bytes.data() + written, bytes.size() - written), into(error));
    if (!error) continue;
    is_cut_short_ = true;
    co_return false;
  }
  wait_at_most(Waiting::nothing, {});
  co_return true;
}

// Closing while bytes of the client are on their way would take our last words from it.
Async<void> Connection::linger() {
  if (wire_.is_secret()) co_await part();
  Error error;
  Socket& socket = wire_.socket();
  socket.shutdown(Socket::shutdown_send, error);
  wait_at_most(Waiting::for_body, kLingerTime);
  std::string waste(kReadBytes, '\0');
  for (size_t total = 0; !error && total < kLingerBytes;) {
    total += co_await socket.async_read_some(asio::buffer(waste), into(error));
  }
  is_cut_short_ = true;
}

// The end of TLS, in both directions.
Async<void> Connection::part() {
  wait_at_most(Waiting::for_body, kLingerTime);
  co_await wire_.end_tls();
}

}  // namespace tenon::http
