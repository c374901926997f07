#include "core/http/request_reader.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>

#include "core/base/ascii.h"
#include "core/http/head_lines.h"

namespace tenon::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Error = boost::system::error_code;
using HttpError = beast::http::error;

constexpr size_t kReadBytes = 4 << 10;

std::string text_of(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string bytes_text(size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

// What Beast says of a request, in words.
struct ParseFault {
  HttpError error;
  unsigned status;
  const char* message;
};
constexpr ParseFault kParseFaults[] = {
    {HttpError::header_limit, 431, "the head is larger than this server takes"},
    {HttpError::buffer_overflow, 431, "the head is larger than this server takes"},
    {HttpError::body_limit, 413, "the body is larger than this server takes"},
    {HttpError::partial_message, 400, "the head of the request is not whole"},
    {HttpError::bad_version, 505, "expected HTTP/1.0 or HTTP/1.1"},
    {HttpError::bad_target, 400, "the target has a character that cannot stand in a URL"},
    {HttpError::bad_value, 400, "a field's value has a character that cannot stand in one"},
    {HttpError::bad_content_length, 400, "Content-Length is no number, or said more than once"},
    {HttpError::bad_transfer_encoding, 400,
     "Transfer-Encoding is no coding known here, or said more than once"},
    {HttpError::bad_chunk, 400, "a chunk of the body does not begin with its length and CR LF"},
    {HttpError::bad_chunk_extension, 400, "a chunk of the body has an extension that is none"},
};

HeadFault extension_fault() {
  return {413, "the extensions of the body's chunks have more than " + bytes_text(kExtensionBytes) +
                   " – leave them out"};
}

HeadFault trailer_fault() {
  return {431, "the fields after the body have more than " + bytes_text(kTrailerBytes) +
                   " – leave them out"};
}

}  // namespace

RequestReader::RequestReader(Wire& wire, Buffer& buffer, const ServerOptions& options)
    : wire_(wire), buffer_(buffer) {
  parser_.header_limit(static_cast<uint32_t>(options.header_bytes));
  parser_.body_limit(options.body_bytes);
}

Async<void> RequestReader::read_some(Error& error) {
  if (buffer_.size() + kReadBytes > buffer_.max_size()) {
    error = HttpError::buffer_overflow;
    co_return;
  }
  const size_t count = co_await wire_.async_read_some(
      buffer_.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, error));
  buffer_.commit(count);
}

// Empty, and `error` as it was, where it is not about HTTP.
HeadFault RequestReader::fault_of(Error& error) {
  if (error.category() != beast::http::make_error_code(HttpError::bad_method).category()) return {};
  const auto known = std::find_if(std::begin(kParseFaults), std::end(kParseFaults),
                                  [&](const ParseFault& fault) { return error == fault.error; });
  error = {};
  if (known == std::end(kParseFaults)) return {400, "this is no HTTP request"};
  return {known->status, known->message};
}

// As Beast's async_read_header does, with a look at the bytes first.
Async<HeadFault> RequestReader::read_head(Error& error) {
  HeadLines lines;
  size_t seen = 0;  // of the buffer
  for (;;) {
    const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    const std::string_view unclear = lines.fault_in(bytes.substr(seen));
    if (!unclear.empty()) co_return HeadFault{400, std::string(unclear)};
    buffer_.consume(bytes.empty() ? 0 : parser_.put(buffer_.data(), error));
    seen = buffer_.size();
    if (!error && parser_.is_header_done()) co_return HeadFault();
    if (error && error != HttpError::need_more) co_return fault_of(error);
    error = {};
    co_await read_some(error);
    if (error == asio::error::eof && buffer_.size() > 0) error = HttpError::partial_message;
    if (error) co_return fault_of(error);
  }
}

// What is around chunks stays in the buffer until the parser has the end of it.
HeadFault RequestReader::waiting_fault() const {
  if (buffer_.size() <= kExtensionBytes + kTrailerBytes) return {};
  const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  const bool is_line = bytes.find('\n', 2) == bytes.npos;  // the first two end the chunk before
  return is_line ? extension_fault() : trailer_fault();
}

Async<HeadFault> RequestReader::read_chunks(Error& error) {
  size_t all_extensions = 0, last_extension = 0;
  auto watch = [&](uint64_t, beast::string_view extensions, Error& fault) {
    last_extension = extensions.size();
    all_extensions += last_extension;
    if (all_extensions > kExtensionBytes) fault = HttpError::bad_chunk_extension;
  };
  parser_.on_chunk_header(watch);
  for (;;) {
    const size_t taken = buffer_.size() == 0 ? 0 : parser_.put(buffer_.data(), error);
    buffer_.consume(taken);
    if (all_extensions > kExtensionBytes) {
      error = {};
      co_return extension_fault();
    }
    if (parser_.is_done()) {
      co_return taken > last_extension + kTrailerBytes ? trailer_fault() : HeadFault();
    }
    if (error && error != HttpError::need_more) co_return fault_of(error);
    const bool is_more_there = !error && buffer_.size() > 0;
    error = {};
    if (is_more_there) continue;
    if (HeadFault fault = waiting_fault(); fault.status != 0) co_return fault;
    co_await read_some(error);
    if (error) co_return fault_of(error);
  }
}

Async<HeadFault> RequestReader::read_body(Error& error) {
  if (parser_.chunked()) co_return co_await read_chunks(error);
  co_await beast::http::async_read(wire_, buffer_, parser_,
                                   asio::redirect_error(asio::use_awaitable, error));
  co_return error == HttpError::partial_message ? HeadFault() : fault_of(error);
}

Request RequestReader::head() const {
  Request request;
  const auto& message = parser_.get();
  request.method = text_of(message.method_string());
  set_target(text_of(message.target()), request);
  request.is_1_0 = message.version() == 10;
  for (const auto& field : message) {
    request.fields.push_back({lower_ascii(text_of(field.name_string())), text_of(field.value())});
  }
  return request;
}

std::optional<uint64_t> RequestReader::body_bytes() const {
  const auto length = parser_.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

}  // namespace tenon::http
