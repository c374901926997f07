#include "core/http/wire.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tenon::http {
namespace {

namespace asio = boost::asio;

auto wire_result(Wire::WireError& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

}  // namespace

Async<void> Wire::accept_tls(TlsContext context, WireError& error) {
  context_ = std::move(context);
  tls_ = std::make_unique<Tls>(socket_, *context_);
  co_await tls_->async_handshake(Tls::server, wire_result(error));
}

Async<bool> Wire::begin_tls(TlsContext context, std::string host, std::string& fault) {
  context_ = std::move(context);
  tls_ = std::make_unique<Tls>(socket_, *context_);
  const Status expected = expect_host(tls_->native_handle(), host);
  if (!expected.ok()) {
    fault = message_of(expected);
    co_return false;
  }
  WireError error;
  co_await tls_->async_handshake(Tls::client, wire_result(error));
  if (error) fault = handshake_fault(tls_->native_handle(), error);
  co_return !error;
}

Async<void> Wire::end_tls() {
  WireError ignored;
  if (tls_ != nullptr) co_await tls_->async_shutdown(wire_result(ignored));
}

Async<std::optional<unsigned char>> Wire::peek() {
  WireError error;
  co_await socket_.async_wait(Socket::wait_read, wire_result(error));
  if (error) co_return std::nullopt;
  unsigned char first = 0;
  const size_t count = socket_.receive(asio::buffer(&first, 1), Socket::message_peek, error);
  if (error || count == 0) co_return std::nullopt;
  co_return first;
}

}  // namespace tenon::http
