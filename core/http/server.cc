#include "core/http/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <unordered_set>

#include "core/base/files/left_socket.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/http/connection.h"

namespace tenon::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;

constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::milliseconds kRetry{50};

auto into(Error& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

std::string shown(const Tcp::endpoint& endpoint) {
  const auto address = endpoint.address();
  const std::string text = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return text + ":" + std::to_string(endpoint.port());
}

// Tokens are small, and wanted at once. A peer that vanished without a word, while it waits for its
// turn and nothing is written to it, is asked for after a minute, and given up after another.
void set_options(Tcp::socket& socket) {
  Error ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(Tcp::socket::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 20);
  set(TCP_KEEPCNT, 3);
}

std::string peer_of(const Tcp::endpoint& endpoint) {
  return shown(endpoint);
}
std::string peer_of(const Local::endpoint&) {
  return "unix";
}

}  // namespace

class Server::State {
 public:
  State(const ServerOptions& options, Handlers handlers)
      : options_(options), handlers_(std::move(handlers)), ticker_(io_), tcp_(io_), local_(io_) {}
  ~State() {
    if (!bound_path_.empty()) ::unlink(bound_path_.c_str());
  }

  Status listen(std::vector<std::string>& addresses);
  Status renew_certificate();
  void run();
  void drain(std::chrono::milliseconds limit);
  const ServerFigures& figures() const { return figures_; }

 private:
  Status listen_tcp(std::vector<std::string>& addresses);
  Status listen_local(std::vector<std::string>& addresses);
  template <typename Protocol>
  Async<void> accept(asio::basic_socket_acceptor<Protocol>& acceptor);
  Async<void> look();
  void begin(Socket socket, std::string peer, TlsContext tls);
  void begin_drain(std::chrono::milliseconds limit);

  const ServerOptions options_;
  const Handlers handlers_;
  asio::io_context io_{1};
  asio::steady_timer ticker_;
  Tcp::acceptor tcp_;
  Local::acceptor local_;
  std::string bound_path_;
  TlsContext tls_;  // of the port
  std::unordered_set<Connection*> connections_;
  ServerFigures figures_;
  bool draining_ = false;
  SteadyTime cut_at_ = SteadyTime::max();
};

Status Server::State::listen(std::vector<std::string>& addresses) {
  if (!options_.tls_certificate.empty()) {
    TENON_ASSIGN_OR_RETURN(tls_, server_tls(options_.tls_certificate, options_.tls_key));
  }
  if (options_.port) TENON_RETURN_IF_ERROR(listen_tcp(addresses));
  if (!options_.socket_path.empty()) TENON_RETURN_IF_ERROR(listen_local(addresses));
  return Status();
}

Status Server::State::listen_tcp(std::vector<std::string>& addresses) {
  Error error;
  Tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options_.host, std::to_string(*options_.port),
                                      Tcp::resolver::passive, error);
  if (error || found.empty()) {
    return invalid_argument("the host " + in_quotes(options_.host) +
                            " is no address of this machine: " + error.message() +
                            " – write one, such as 127.0.0.1");
  }
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  tcp_.open(endpoint.protocol(), error);
  if (!error) tcp_.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) tcp_.bind(endpoint, error);
  if (!error) tcp_.listen(4096, error);
  if (error) {
    return failed("cannot listen on " + shown(endpoint) + ": " + error.message() +
                  " – choose another --port (0: any that is free) or --host");
  }
  addresses.push_back((tls_ ? "https://" : "http://") + shown(tcp_.local_endpoint()));
  return Status();
}

Status Server::State::listen_local(std::vector<std::string>& addresses) {
  const std::string& path = options_.socket_path;
  // sockaddr_un has room for so much.
  if (path.size() > 107) {
    return invalid_argument("the socket's path " + path_in_quotes(path) +
                            " is longer than 107 bytes – choose a shorter one");
  }
  remove_left_socket(path);
  Error error;
  local_.open(Local(), error);
  if (!error) local_.bind(Local::endpoint(path), error);
  if (!error) {
    bound_path_ = path;
    // Whoever may connect may use the server: at first its owner alone.
    ::chmod(path.c_str(), S_IRUSR | S_IWUSR);
    local_.listen(4096, error);
  }
  if (error) {
    return failed("cannot listen on the socket " + path_in_quotes(path) + ": " + error.message());
  }
  addresses.push_back("unix:" + path);
  return Status();
}

Status Server::State::renew_certificate() {
  TENON_ASSIGN_OR_RETURN(TlsContext tls, server_tls(options_.tls_certificate, options_.tls_key));
  asio::post(io_, [this, tls = std::move(tls)] { tls_ = tls; });
  return {};
}

void Server::State::begin(Socket socket, std::string peer, TlsContext tls) {
  ++figures_.accepted;
  ++figures_.open;
  auto connection = std::make_shared<Connection>(io_, std::move(socket), std::move(tls),
                                                 std::move(peer), options_, handlers_);
  connections_.insert(connection.get());
  asio::co_spawn(io_, connection->serve(), [this, connection](const std::exception_ptr& problem) {
    connections_.erase(connection.get());
    --figures_.open;
    if (!problem) return;
    connection->cut();
    try {
      std::rethrow_exception(problem);
    } catch (const std::exception& error) {
      log(LogLevel::error, "server", std::string("a connection: ") + error.what());
    }
  });
}

template <typename Protocol>
Async<void> Server::State::accept(asio::basic_socket_acceptor<Protocol>& acceptor) {
  asio::steady_timer pause(io_);
  while (!draining_) {
    Error error;
    if (connections_.size() >= options_.connections) {
      pause.expires_after(kRetry);
      co_await pause.async_wait(into(error));
      continue;
    }
    typename Protocol::endpoint endpoint;
    auto socket = co_await acceptor.async_accept(endpoint, into(error));
    if (draining_) break;
    if (error) {
      // No file descriptor is left, or the client has gone already.
      pause.expires_after(kRetry);
      co_await pause.async_wait(into(error));
      continue;
    }
    TlsContext tls;
    if constexpr (std::is_same_v<Protocol, Tcp>) {
      set_options(socket);
      tls = tls_;
    }
    begin(Socket(std::move(socket)), peer_of(endpoint), std::move(tls));
  }
}

// Holds everybody to their times.
Async<void> Server::State::look() {
  while (!draining_ || !connections_.empty()) {
    Error error;
    ticker_.expires_after(kLook);
    co_await ticker_.async_wait(into(error));
    const SteadyTime now = std::chrono::steady_clock::now();
    const bool cut = now >= cut_at_;
    const std::vector<Connection*> open(connections_.begin(), connections_.end());
    for (Connection* connection : open) cut ? connection->cut() : connection->look(now);
  }
}

void Server::State::run() {
  if (tcp_.is_open()) asio::co_spawn(io_, accept(tcp_), asio::detached);
  if (local_.is_open()) asio::co_spawn(io_, accept(local_), asio::detached);
  asio::co_spawn(io_, look(), asio::detached);
  io_.run();
}

void Server::State::drain(std::chrono::milliseconds limit) {
  asio::post(io_, [this, limit] { begin_drain(limit); });
}

void Server::State::begin_drain(std::chrono::milliseconds limit) {
  cut_at_ = std::min(cut_at_, std::chrono::steady_clock::now() + limit);
  if (draining_) return;
  draining_ = true;
  Error ignored;
  tcp_.close(ignored);
  local_.close(ignored);
  for (Connection* connection : connections_) connection->drain();
  ticker_.cancel();
}

Result<std::unique_ptr<Server>> Server::open(const ServerOptions& options, Handlers handlers) {
  std::unique_ptr<Server> server(new Server(std::make_shared<State>(options, std::move(handlers))));
  TENON_RETURN_IF_ERROR(server->state_->listen(server->addresses_));
  return server;
}

Server::~Server() = default;

void Server::run() {
  state_->run();
}

void Server::drain(std::chrono::milliseconds limit) {
  state_->drain(limit);
}

Status Server::renew_certificate() {
  return state_->renew_certificate();
}

const ServerFigures& Server::figures() const {
  return state_->figures();
}

}  // namespace tenon::http
