// Reads one request from a connection, as Beast parses it, and refuses what Beast would mend or has
// no limit for: lines of the head that could be understood in two ways, and what stands around the
// chunks of a body. I/O thread.
#pragma once

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>

#include "core/http/head_check.h"
#include "core/http/server.h"
#include "core/http/wire.h"

namespace tenon::http {

// Of a chunked body: the extensions of all chunks, and the fields after the last one.
constexpr size_t kExtensionBytes = 4 << 10;
constexpr size_t kTrailerBytes = 4 << 10;

class RequestReader {
 public:
  using Buffer = boost::beast::flat_buffer;
  using Error = boost::system::error_code;

  // `buffer` holds what was read already, and keeps what belongs to the next request.
  RequestReader(Wire& wire, Buffer& buffer, const ServerOptions& options);

  // `error` is set where the connection has ended or was cancelled. The fault is for the client.
  Async<HeadFault> read_head(Error& error);
  Async<HeadFault> read_body(Error& error);

  // After the head.
  Request head() const;
  bool keep_alive() const { return parser_.get().keep_alive(); }
  unsigned version() const { return parser_.get().version(); }
  // Where it is said.
  std::optional<uint64_t> body_bytes() const;
  // Nothing of it is missing.
  bool is_done() const { return parser_.is_done(); }
  std::string take_body() { return std::move(parser_.get().body()); }

 private:
  Async<void> read_some(Error& error);
  Async<HeadFault> read_chunks(Error& error);
  HeadFault waiting_fault() const;
  static HeadFault fault_of(Error& error);

  Wire& wire_;
  Buffer& buffer_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
};

}  // namespace tenon::http
