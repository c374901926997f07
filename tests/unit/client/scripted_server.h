// A server that does what a test says, connection by connection.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tenon {

// One connection, of the server's side. It is closed when the script is over.
class Wire {
 public:
  explicit Wire(int socket) : socket_(socket) {}
  ~Wire() { ::close(socket_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // A whole request, head and body; empty where the client hung up.
  std::string request() {
    while (read_.find("\r\n\r\n") == read_.npos) {
      if (!more()) return "";
    }
    const size_t head = read_.find("\r\n\r\n") + 4;
    const size_t field = read_.find("Content-Length: ");
    const size_t length = field < head ? std::stoul(read_.substr(field + 16)) : 0;
    while (read_.size() < head + length) {
      if (!more()) return "";
    }
    const std::string one = read_.substr(0, head + length);
    read_.erase(0, head + length);
    return one;
  }
  // False once the client has hung up.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      text.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  // In pieces of one byte, each a packet where the system allows it.
  void send_slowly(std::string_view text) {
    for (const char c : text) send({&c, 1});
  }
  void answer(std::string_view body, std::string_view type = "application/json",
              std::string_view status = "200 OK") {
    send("HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }
  void begin_events() {
    send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
        "chunked\r\n\r\n");
  }
  void chunk(std::string_view text) {
    char size[20];
    std::snprintf(size, sizeof(size), "%zx\r\n", text.size());
    send(size + std::string(text) + "\r\n");
  }
  void event(const std::string& data) {
    std::string text = "data: ";
    for (const char c : data) text += c == '\n' ? std::string("\ndata: ") : std::string(1, c);
    chunk(text + "\n\n");
  }
  void end_chunks() { send("0\r\n\r\n"); }
  // Until the client hangs up.
  void wait() {
    while (more()) continue;
  }

 private:
  bool more() {
    char piece[4096];
    const ssize_t count = ::recv(socket_, piece, sizeof(piece), 0);
    if (count > 0) read_.append(piece, static_cast<size_t>(count));
    return count > 0;
  }

  const int socket_;
  std::string read_;
};

using Script = std::function<void(Wire&)>;

// The first connection gets the first script, and so on, each after the other.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<Script> scripts, const std::string& path = {})
      : listener_(::socket(path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM, 0)) {
    path.empty() ? listen_tcp() : listen_unix(path);
    thread_ = std::thread([this, scripts = std::move(scripts)] {
      for (const Script& script : scripts) {
        const int socket = ::accept(listener_, nullptr, nullptr);
        if (socket < 0) return;
        Wire wire(socket);
        script(wire);
      }
    });
  }
  // The scripts must all have had their connections.
  ~ScriptedServer() {
    thread_.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  void listen_tcp() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listen_at(&address, sizeof(address));
    socklen_t size = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  void listen_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    listen_at(&address, sizeof(address));
    url_ = "unix:" + path;
  }
  template <typename Address>
  void listen_at(const Address* address, socklen_t size) {
    ASSERT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(address), size), 0);
    ASSERT_EQ(::listen(listener_, 64), 0);
  }

  const int listener_;
  std::string url_;
  std::thread thread_;
};

}  // namespace tenon
