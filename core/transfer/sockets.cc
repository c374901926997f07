// TCP and unix sockets, each with blocking calls: a stream has one thread that reads and one that
// writes, so nothing is gained by waiting for many at once.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/base/files/descriptor.h"
#include "core/base/files/left_socket.h"
#include "core/base/quote.h"
#include "core/transfer/memory_stream.h"
#include "core/transfer/socket_address.h"
#include "core/transfer/stream.h"

namespace tenon {
namespace {

constexpr int kConnectMs = 3000;
constexpr int kWaitingConnections = 64;
constexpr int kLookMs = 200;  // whether it was shut down

Status fault(const std::string& what) {
  return failed(what + ": " + std::generic_category().message(errno));
}

void set_timeouts(int fd, int64_t silence_ns) {
  timeval limit = {};
  limit.tv_sec = silence_ns / 1'000'000'000;
  limit.tv_usec = silence_ns % 1'000'000'000 / 1000;
  if (limit.tv_sec == 0 && limit.tv_usec == 0) limit.tv_usec = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const int one = 1;  // fails for unix sockets, which need none
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

class SocketStream final : public KvStream {
 public:
  explicit SocketStream(int fd) : socket_(fd) {}

  Status read(std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t count = ::recv(socket_.get(), out.data(), out.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fault("nothing came");
      if (count == 0) return failed("the other end closed the connection");
      out = out.subspan(static_cast<size_t>(count));
    }
    return {};
  }

  Status write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    while (!first.empty() || !second.empty()) {
      std::array<iovec, 2> parts = {};
      size_t used = 0;
      for (const auto& part : {first, second}) {
        // sendmsg takes what it only reads as void*.
        if (!part.empty()) parts[used++] = {const_cast<std::byte*>(part.data()), part.size()};
      }
      msghdr message = {};
      message.msg_iov = parts.data();
      message.msg_iovlen = used;
      const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fault("nothing was taken");
      const auto sent = static_cast<size_t>(count);
      const size_t of_first = std::min(sent, first.size());
      first = first.subspan(of_first);
      second = second.subspan(sent - of_first);
    }
    return {};
  }

  void shut_down() override { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  const Descriptor socket_;
};

// The system's addresses of `address`; freed with the result.
struct Found {
  addrinfo* list = nullptr;
  ~Found() {
    if (list != nullptr) ::freeaddrinfo(list);
  }
};

Status look_up(const SocketAddress& address, bool to_listen, Found& found) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = to_listen ? AI_PASSIVE : 0;
  const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                                  &wanted, &found.list);
  if (error == 0) return {};
  return failed("the host " + in_quotes(address.host) + " is not found: " + ::gai_strerror(error));
}

sockaddr_un unix_name(const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  return name;
}

bool connect_within(int fd, const sockaddr* name, socklen_t size) {
  if (::connect(fd, name, size) == 0) return true;
  if (errno != EINPROGRESS && errno != EAGAIN) return false;
  pollfd waited = {fd, POLLOUT, 0};
  const int ready = ::poll(&waited, 1, kConnectMs);
  if (ready <= 0) {
    if (ready == 0) errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0;
}

// From here on calls block.
void let_block(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

Result<int> open_connection(const sockaddr* name, socklen_t size) {
  const int fd = ::socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fault("no socket can be made");
  if (!connect_within(fd, name, size)) {
    const Status status = fault("cannot connect");
    ::close(fd);
    return copy(status);
  }
  let_block(fd);
  return fd;
}

class SocketListener final : public KvListener {
 public:
  SocketListener(int fd, SocketAddress address, int64_t silence_ns)
      : socket_(fd), address_(std::move(address)), silence_ns_(silence_ns) {}
  ~SocketListener() override {
    if (!address_.path.empty()) ::unlink(address_.path.c_str());
  }

  Result<std::unique_ptr<KvStream>> accept() override {
    while (!stopped_) {
      pollfd waited = {socket_.get(), POLLIN, 0};
      const int ready = ::poll(&waited, 1, kLookMs);
      if (ready < 0 && errno != EINTR) return fault("cannot wait");
      if (ready <= 0 || stopped_) continue;
      const int fd = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        set_timeouts(fd, silence_ns_);
        if (address_.by_memory) return accept_memory_stream(fd, silence_ns_);
        return std::unique_ptr<KvStream>(std::make_unique<SocketStream>(fd));
      }
      // A client that is gone already, or no further descriptor: the next one may come.
      if (errno == EBADF || errno == EINVAL) return fault("cannot accept");
      if (errno == EMFILE || errno == ENFILE) ::poll(nullptr, 0, 100);
    }
    return failed("shut down");
  }

  void shut_down() override {
    stopped_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  std::string address() const override { return address_.shown(); }

 private:
  const Descriptor socket_;
  const SocketAddress address_;
  const int64_t silence_ns_;
  std::atomic<bool> stopped_ = false;
};

uint16_t port_of(int fd) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  if (name.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&name)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

Result<int> open_listener(const sockaddr* name, socklen_t size) {
  const int fd = ::socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fault("no socket can be made");
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd, name, size) != 0 || ::listen(fd, kWaitingConnections) != 0) {
    const Status status = fault("cannot listen");
    ::close(fd);
    return copy(status);
  }
  return fd;
}

class SocketTransport final : public KvTransport {
 public:
  Result<std::unique_ptr<KvStream>> connect(const std::string& text, int64_t silence_ns) override {
    TENON_ASSIGN_OR_RETURN(const SocketAddress address, parse_socket_address(text));
    Result<int> fd = failed("cannot connect");
    if (address.host.empty()) {
      const sockaddr_un name = unix_name(address.path);
      fd = open_connection(reinterpret_cast<const sockaddr*>(&name), sizeof(name));
    } else {
      Found found;
      TENON_RETURN_IF_ERROR(look_up(address, false, found));
      for (const addrinfo* at = found.list; at != nullptr && !fd.ok(); at = at->ai_next) {
        fd = open_connection(at->ai_addr, at->ai_addrlen);
      }
    }
    if (!fd.ok()) return with_context(text, fd.status());
    set_timeouts(*fd, silence_ns);
    if (address.by_memory) {
      auto stream = offer_memory_stream(*fd, silence_ns);
      if (!stream.ok()) return with_context(text, stream.status());
      return stream;
    }
    return std::unique_ptr<KvStream>(std::make_unique<SocketStream>(*fd));
  }

  Result<std::unique_ptr<KvListener>> listen(const std::string& text, int64_t silence_ns) override {
    TENON_ASSIGN_OR_RETURN(SocketAddress address, parse_socket_address(text));
    Result<int> fd = failed("cannot listen");
    if (address.host.empty()) {
      remove_left_socket(address.path);
      const sockaddr_un name = unix_name(address.path);
      fd = open_listener(reinterpret_cast<const sockaddr*>(&name), sizeof(name));
    } else {
      Found found;
      TENON_RETURN_IF_ERROR(look_up(address, true, found));
      for (const addrinfo* at = found.list; at != nullptr && !fd.ok(); at = at->ai_next) {
        fd = open_listener(at->ai_addr, at->ai_addrlen);
      }
    }
    if (!fd.ok()) return with_context(text, fd.status());
    if (!address.host.empty()) address.port = port_of(*fd);
    return std::unique_ptr<KvListener>(
        std::make_unique<SocketListener>(*fd, std::move(address), silence_ns));
  }
};

}  // namespace

std::unique_ptr<KvTransport> make_socket_transport() {
  return std::make_unique<SocketTransport>();
}

}  // namespace tenon
