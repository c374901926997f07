// Any bytes from a client on a connection of the server, in one piece or two: the first byte says
// where they are cut. Each request is answered at once.
#include <sys/socket.h>
#include <unistd.h>

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/http/connection.h"
#include "tests/fuzz/target.h"

namespace {

using namespace tenon::http;
namespace asio = boost::asio;

constexpr size_t kMostBody = 4 << 10;
constexpr int kPatience = 10'000;

void require(bool holds) {
  if (!holds) std::abort();
}

Handlers answering_handlers() {
  Handlers handlers;
  handlers.gate = [](const Request& request) -> std::optional<Response> {
    require(!request.method.empty());
    for (const Field& field : request.fields) {
      require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == field.value.npos);
    }
    if (request.path == "/refused") return Response{.status = 404, .body = "no"};
    return std::nullopt;
  };
  handlers.handle = [](const Request& request, const std::shared_ptr<Exchange>& exchange) {
    require(request.body.size() <= kMostBody);
    exchange->answer({.body = "yes"});
  };
  handlers.refuse = [](unsigned status, const std::string& message) {
    require(status >= 400 && status < 500 ? !message.empty() : status == 505);
    return Response{.status = status, .body = message};
  };
  return handlers;
}

// What came back: whole responses of known statuses, one after the other.
void check(std::string_view answers) {
  while (!answers.empty()) {
    require(answers.starts_with("HTTP/1.1 "));
    const std::string_view status = answers.substr(9, 3);
    const size_t end = answers.find("\r\n\r\n");
    require(end != answers.npos);
    const std::string_view head = answers.substr(0, end + 4);
    answers.remove_prefix(head.size());
    if (status == "100") continue;
    require(status == "200" || status == "505" || status.front() == '4');
    const size_t field = head.find("Content-Length: ");
    require(field != head.npos);
    const size_t length = std::strtoul(head.data() + field + 16, nullptr, 10);
    // Of an answer to HEAD the length is that of what was left out.
    const bool is_left_out = answers.starts_with("HTTP/1.1 ") || answers.size() < length;
    if (!is_left_out) answers.remove_prefix(length);
    if (is_left_out && !answers.starts_with("HTTP/1.1 ")) require(answers.empty());
  }
}

std::string all_of(int socket) {
  std::string text;
  char piece[4096];
  for (ssize_t count = 0; (count = ::recv(socket, piece, sizeof(piece), MSG_DONTWAIT)) > 0;) {
    text.append(piece, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

TENON_FUZZ_TARGET(http_request, const uint8_t* data, size_t size) {
  if (size < 2 || size > 16384) return 0;
  static const Handlers kHandlers = answering_handlers();
  static const ServerOptions kOptions{.header_bytes = 2048, .body_bytes = kMostBody};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  {
    asio::io_context io(1);
    const auto connection = std::make_shared<Connection>(
        io,
        Socket(asio::local::stream_protocol::socket(io, asio::local::stream_protocol(), ends[0])),
        nullptr, "fuzz", kOptions, kHandlers);
    bool is_over = false;
    asio::co_spawn(io, connection->serve(), [&](const std::exception_ptr& problem) {
      require(!problem);
      is_over = true;
    });
    const size_t cut = 1 + data[0] % (size - 1);
    for (const auto& [from, to] : {std::pair<size_t, size_t>{1, cut}, {cut, size}}) {
      if (to > from) static_cast<void>(::send(ends[1], data + from, to - from, MSG_NOSIGNAL));
      while (io.poll() > 0) continue;
    }
    ::shutdown(ends[1], SHUT_WR);
    for (int i = 0; !is_over && i < kPatience; ++i) io.poll();
    require(is_over);
    check(all_of(ends[1]));
    io.poll();
  }
  ::close(ends[1]);
  return 0;
}
