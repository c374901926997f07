#include "core/server/kv_events/zmq.h"

#include <dlfcn.h>
#include <poll.h>

#include <type_traits>

#include "core/base/quote.h"

namespace tenon::server::zmq {
namespace {

// libzmq 4, without its headers. The numbers are part of its ABI (libzmq.so.5).
constexpr int kLinger = 17;
constexpr int kSendMost = 23;
constexpr int kLastEndpoint = 32;
constexpr int kReceiveMore = 13;
constexpr int kDontWait = 1;
constexpr int kSendMore = 2;
constexpr short kPollIn = 1;
constexpr int kIpv6 = 42;
constexpr size_t kMostParts = 4;

struct PollItem {
  void* socket;
  int descriptor;
  short events;
  short returned;
};

struct Library {
  void* (*new_context)() = nullptr;
  void* (*open)(void*, int) = nullptr;
  int (*close)(void*) = nullptr;
  int (*bind)(void*, const char*) = nullptr;
  int (*connect)(void*, const char*) = nullptr;
  int (*set)(void*, int, const void*, size_t) = nullptr;
  int (*get)(void*, int, void*, size_t*) = nullptr;
  int (*send)(void*, const void*, size_t, int) = nullptr;
  int (*receive)(void*, void*, size_t, int) = nullptr;
  int (*poll)(PollItem*, int, long) = nullptr;
  int (*error_number)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  void* context = nullptr;  // for the rest of the process

  Library() {
    void* const library = ::dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    bool whole = true;
    const auto find = [&](const char* name, auto& function) {
      void* const found = ::dlsym(library, name);
      whole = whole && found != nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find("zmq_ctx_new", new_context);
    find("zmq_socket", open);
    find("zmq_close", close);
    find("zmq_bind", bind);
    find("zmq_connect", connect);
    find("zmq_setsockopt", set);
    find("zmq_getsockopt", get);
    find("zmq_send", send);
    find("zmq_recv", receive);
    find("zmq_poll", poll);
    find("zmq_errno", error_number);
    find("zmq_strerror", error_text);
    if (whole) context = new_context();
  }
};

const Library& library() {
  static const Library kLoaded;
  return kLoaded;
}

// Names are looked up among such addresses too then, so that it is done for written ones alone.
void allow_v6(void* handle, const std::string& endpoint) {
  const int on = 1;
  if (endpoint.find('[') != endpoint.npos) library().set(handle, kIpv6, &on, sizeof(on));
}

Status failure(const char* what, const std::string& endpoint) {
  return failed(std::string("ZeroMQ cannot ") + what + " " + in_quotes(endpoint) + ": " +
                library().error_text(library().error_number()));
}

}  // namespace

Result<std::unique_ptr<Socket>> Socket::open(Kind kind, int most_messages) {
  const Library& zmq = library();
  if (zmq.context == nullptr) {
    return Status::error(StatusCode::unsupported,
                         "there is no ZeroMQ on this machine (libzmq.so.5) – install libzmq5");
  }
  void* const handle = zmq.open(zmq.context, static_cast<int>(kind));
  if (handle == nullptr) return failed("ZeroMQ has no further socket – raise \"ulimit -n\"");
  const int none = 0;
  zmq.set(handle, kLinger, &none, sizeof(none));
  zmq.set(handle, kSendMost, &most_messages, sizeof(most_messages));
  return std::unique_ptr<Socket>(new Socket(handle));
}

Socket::~Socket() {
  library().close(handle_);
}

Status Socket::bind(const std::string& endpoint) {
  allow_v6(handle_, endpoint);
  return library().bind(handle_, endpoint.c_str()) == 0 ? Status() : failure("bind", endpoint);
}

Status Socket::connect(const std::string& endpoint) {
  allow_v6(handle_, endpoint);
  return library().connect(handle_, endpoint.c_str()) == 0 ? Status()
                                                           : failure("connect to", endpoint);
}

std::string Socket::bound_endpoint() const {
  char text[512] = {};
  size_t size = sizeof(text) - 1;
  return library().get(handle_, kLastEndpoint, text, &size) == 0 ? std::string(text) : "";
}

bool Socket::send(std::span<const std::string_view> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flags = kDontWait | (i + 1 < parts.size() ? kSendMore : 0);
    if (library().send(handle_, parts[i].data(), parts[i].size(), flags) < 0) return false;
  }
  return true;
}

std::vector<std::string> Socket::receive() {
  std::vector<std::string> parts;
  for (int more = 1; more != 0;) {
    char part[256];
    const int size = library().receive(handle_, part, sizeof(part), kDontWait);
    if (size < 0) return {};
    if (parts.size() < kMostParts) {
      parts.emplace_back(part, std::min<size_t>(static_cast<size_t>(size), sizeof(part)));
    }
    size_t bytes = sizeof(more);
    if (library().get(handle_, kReceiveMore, &more, &bytes) != 0) return {};
  }
  return parts;
}

void Socket::wait(int descriptor) {
  PollItem items[] = {{handle_, 0, kPollIn, 0}, {nullptr, descriptor, kPollIn, 0}};
  library().poll(items, 2, -1);
}

void Socket::wait_for(int descriptor) {
  pollfd item{.fd = descriptor, .events = POLLIN, .revents = 0};
  ::poll(&item, 1, -1);
}

}  // namespace tenon::server::zmq
