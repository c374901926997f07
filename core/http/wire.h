// The bytes of one connection, in the open or under TLS, for servers and clients. It is a stream in
// the sense of Asio, for one thread; a read and a write may be under way at once.
#pragma once

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/http/tls.h"

namespace tenon::http {

using Socket = boost::asio::generic::stream_protocol::socket;
template <typename T>
using Async = boost::asio::awaitable<T>;

class Wire {
 public:
  using executor_type = Socket::executor_type;
  using WireError = boost::system::error_code;

  explicit Wire(Socket socket) : socket_(std::move(socket)) {}
  explicit Wire(boost::asio::io_context& io) : socket_(io) {}

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& socket() { return socket_; }
  bool is_secret() const { return tls_ != nullptr; }

  // Takes part in TLS from here on; nothing has been read yet. What cancels the socket ends it.
  Async<void> accept_tls(TlsContext context, WireError& error);
  // `fault` says why it failed, in words.
  Async<bool> begin_tls(TlsContext context, std::string host, std::string& fault);
  // Tells the peer that nothing follows, and waits until it has said the same. Under TLS alone: an
  // end without it looks like one that somebody else made.
  Async<void> end_tls();
  // The first byte, which stays to be read. Absent where the connection has ended.
  Async<std::optional<unsigned char>> peek();

  void cancel() {
    WireError ignored;
    socket_.cancel(ignored);
  }
  void close() {
    WireError ignored;
    socket_.close(ignored);
  }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) ->
      typename boost::asio::async_result<std::decay_t<Token>,
                                         void(WireError, size_t)>::return_type {
    if (tls_ != nullptr) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return socket_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) ->
      typename boost::asio::async_result<std::decay_t<Token>,
                                         void(WireError, size_t)>::return_type {
    if (tls_ != nullptr) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return socket_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  using Tls = boost::asio::ssl::stream<Socket&>;

  Socket socket_;
  TlsContext context_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace tenon::http
