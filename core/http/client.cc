#include "core/http/client.h"

// clang-format off: Asio's coroutines need it, and do not include it.
#include <utility>
// clang-format on

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <list>
#include <optional>
#include <unordered_set>

#include "core/base/clock.h"
#include "core/base/quote.h"
#include "core/http/places.h"
#include "core/http/wire.h"

namespace tenon::http {
namespace {

namespace asio = boost::asio;
using ClientError = boost::system::error_code;
using PointInTime = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kTimeoutGrain{20};
constexpr size_t kPieceBytes = 64 << 10;
constexpr const char* kSilence = "the server kept silent for too long";

auto with_error(ClientError& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

int64_t monotonic_ns() {
  return WallClock().now_ns();
}

std::string request_text(const Address& address, const Outgoing& request) {
  std::string text = request.method + " " + address.base + request.path + " HTTP/1.1\r\n";
  text += "Host: " + address.host_field() + "\r\n";
  for (const Field& field : request.fields) text += field.name + ": " + field.value + "\r\n";
  if (!request.body.empty() || request.method != "GET") {
    text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  return text + "\r\n" + request.body;
}

struct Link {
  explicit Link(asio::io_context& io) : wire(io) {}
  Wire wire;
};

// A request that is under way.
struct Transfer {
  Link* link = nullptr;
  PointInTime deadline = PointInTime::max();  // of the present wait
  PointInTime last = PointInTime::max();      // of the whole
  const char* wait = "";                      // what it waits for, in words
  bool timed_out = false;
  bool is_written = false;
};

// Hands a response on to its handler, and notes whether that has had enough.
class HandlerSink final : public ResponseSink {
 public:
  explicit HandlerSink(ResponseHandler& handler) : handler_(handler) {}
  void head(unsigned status, const std::vector<Field>& fields) override {
    handler_.head(status, fields, now_ns);
  }
  void body(std::string_view piece) override {
    if (!had_enough) had_enough = !handler_.body(piece, now_ns);
  }

  int64_t now_ns = 0;
  bool had_enough = false;

 private:
  ResponseHandler& handler_;
};

}  // namespace

class Client::State {
 public:
  // `tls` is null where the address says nothing of it.
  State(const Address& address, const ClientOptions& options, TlsContext tls)
      : address_(address),
        options_(options),
        tls_(std::move(tls)),
        ticker_(io_),
        places_(io_, address) {}

  void send(Outgoing request, std::shared_ptr<ResponseHandler> handler);
  void at(int64_t time_ns, std::function<void()> call);
  void run();
  void stop() {
    asio::post(io_, [this] { stop_here(); });
  }

 private:
  Async<void> carry(Outgoing request, std::shared_ptr<ResponseHandler> handler);
  Async<Ending> exchange(Transfer& transfer, const std::string& text, ResponseHandler& handler);
  Async<Ending> attempt(Transfer& transfer, const std::string& text, ResponseReader& reader,
                        HandlerSink& sink);
  Async<Ending> look_up(Transfer& transfer);
  Async<Ending> connect(Transfer& transfer, std::unique_ptr<Link>& link);
  Async<bool> secure(Transfer& transfer, Link& link, std::string& fault);
  Ending no_connection(const std::string& why) const;
  Async<bool> write(Transfer& transfer, const std::string& text);
  Async<void> read(Transfer& transfer, ResponseReader& reader, HandlerSink& sink);
  std::unique_ptr<Link> kept_link();
  Async<void> watch_times();
  void wait_at_most(Transfer& transfer, std::chrono::milliseconds time, const char* wait) const;
  std::optional<Ending> interruption(const Transfer& transfer) const;
  void stop_here();

  const Address address_;
  const ClientOptions options_;
  const TlsContext tls_;
  std::unordered_set<Transfer*> transfers_;  // outlives the coroutines that stand in it
  asio::io_context io_{1};
  asio::steady_timer ticker_;
  Places places_;
  std::vector<std::unique_ptr<Link>> free_;
  std::list<asio::steady_timer> timers_;
  bool is_watching_ = false;
  bool stopped_ = false;
};

void Client::State::send(Outgoing request, std::shared_ptr<ResponseHandler> handler) {
  asio::co_spawn(io_, carry(std::move(request), handler),
                 [handler](const std::exception_ptr& problem) {
                   if (!problem) return;
                   std::string what = "the exchange failed";
                   try {
                     std::rethrow_exception(problem);
                   } catch (const std::exception& error) {
                     what += std::string(": ") + error.what();
                   }
                   handler->end({Fault::protocol, what}, monotonic_ns());
                 });
}

void Client::State::at(int64_t time_ns, std::function<void()> call) {
  if (stopped_) return;
  const PointInTime time{std::chrono::nanoseconds(time_ns)};
  const auto timer = timers_.emplace(timers_.end(), io_, time);
  timer->async_wait([this, timer, call = std::move(call)](const ClientError& error) {
    timers_.erase(timer);
    if (!error && !stopped_) call();
  });
}

void Client::State::run() {
  io_.run();
  io_.restart();
}

void Client::State::stop_here() {
  stopped_ = true;
  for (asio::steady_timer& timer : timers_) timer.cancel();
  for (Transfer* transfer : transfers_) {
    if (transfer->link != nullptr) transfer->link->wire.cancel();
  }
  places_.wake();
}

// Transfers live in their coroutine's frame.
Async<void> Client::State::carry(Outgoing request, std::shared_ptr<ResponseHandler> handler) {
  Transfer transfer;
  if (options_.total_timeout.count() > 0) {
    transfer.last = std::chrono::steady_clock::now() + options_.total_timeout;
  }
  transfers_.insert(&transfer);
  struct Forget {
    std::unordered_set<Transfer*>& all;
    Transfer* one;
    ~Forget() { all.erase(one); }
  };
  Ending ending;
  {
    const Forget forget{transfers_, &transfer};
    if (!is_watching_) {
      is_watching_ = true;
      asio::co_spawn(io_, watch_times(), asio::detached);
    }
    ending = co_await exchange(transfer, request_text(address_, request), *handler);
  }
  handler->end(ending, monotonic_ns());
}

Async<Ending> Client::State::exchange(Transfer& transfer, const std::string& text,
                                      ResponseHandler& handler) {
  for (;;) {
    std::unique_ptr<Link> link = kept_link();
    const bool is_kept = link != nullptr;
    if (!is_kept) {
      Ending ending = co_await connect(transfer, link);
      if (ending.fault != Fault::none) co_return ending;
    }
    transfer.link = link.get();
    HandlerSink sink(handler);
    ResponseReader reader(options_.limits, sink);
    Ending ending = co_await attempt(transfer, text, reader, sink);
    transfer.link = nullptr;
    // Servers close connections that were idle for long, maybe while we write.
    if (ending.fault == Fault::closed && is_kept && !reader.has_begun()) continue;
    const bool is_whole = ending.fault == Fault::none && transfer.is_written;
    if (is_whole && reader.can_go_on() && !stopped_) {
      free_.push_back(std::move(link));
    }
    co_return ending;
  }
}

Async<Ending> Client::State::attempt(Transfer& transfer, const std::string& text,
                                     ResponseReader& reader, HandlerSink& sink) {
  // A server that refuses a request may close before it has read all of it.
  transfer.is_written = co_await write(transfer, text);
  co_await read(transfer, reader, sink);
  if (const auto cut = interruption(transfer)) co_return *cut;
  if (sink.had_enough) co_return Ending{Fault::stopped, "the rest of the response was not wanted"};
  if (reader.is_complete()) co_return Ending{};
  if (!reader.has_begun()) {
    co_return Ending{Fault::closed, "the server closed the connection without a response"};
  }
  const bool is_cut = reader.fault() == "the connection ended within the response";
  co_return Ending{is_cut ? Fault::closed : Fault::protocol, reader.fault()};
}

Ending Client::State::no_connection(const std::string& why) const {
  return {Fault::connect, "cannot connect to " + in_quotes(address_.shown()) + ": " + why};
}

// One transfer begins it; all that need it wait.
Async<Ending> Client::State::look_up(Transfer& transfer) {
  places_.look_up();
  wait_at_most(transfer, options_.connect_timeout, "the host's name was not found in time");
  while (places_.is_looking() && !interruption(transfer)) co_await places_.wait();
  if (const auto cut = interruption(transfer)) co_return *cut;
  if (!places_.fault().empty()) co_return Ending{Fault::connect, places_.fault()};
  co_return Ending{};
}

Async<Ending> Client::State::connect(Transfer& transfer, std::unique_ptr<Link>& link) {
  Ending found = co_await look_up(transfer);
  if (found.fault != Fault::none) co_return found;
  ClientError error;
  const std::vector<Places::Place> places = places_.found();
  for (const Places::Place& place : places) {
    link = std::make_unique<Link>(io_);
    Socket& socket = link->wire.socket();
    transfer.link = link.get();
    wait_at_most(transfer, options_.connect_timeout, "there was no connection in time");
    co_await socket.async_connect(place, with_error(error));
    std::string fault;
    const bool is_ready = !error && (tls_ == nullptr || co_await secure(transfer, *link, fault));
    transfer.link = nullptr;
    if (const auto cut = interruption(transfer)) co_return *cut;
    if (error) continue;
    if (!is_ready) co_return no_connection(fault);
    ClientError ignored;
    if (!address_.host.empty()) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    co_return Ending{};
  }
  places_.forget();
  co_return no_connection(error.message());
}

Async<bool> Client::State::secure(Transfer& transfer, Link& link, std::string& fault) {
  if (interruption(transfer)) co_return false;
  wait_at_most(transfer, options_.connect_timeout, "the handshake of TLS was not over in time");
  co_return co_await link.wire.begin_tls(tls_, address_.host, fault);
}

Async<bool> Client::State::write(Transfer& transfer, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    if (interruption(transfer)) co_return false;
    wait_at_most(transfer, options_.silence_timeout, kSilence);
    ClientError error;
    written += co_await transfer.link->wire.async_write_some(
        asio::buffer(text.data() + written, text.size() - written), with_error(error));
    if (error) co_return false;
  }
  co_return true;
}

Async<void> Client::State::read(Transfer& transfer, ResponseReader& reader, HandlerSink& sink) {
  std::string piece(kPieceBytes, '\0');
  while (!interruption(transfer) && !sink.had_enough) {
    wait_at_most(transfer, options_.silence_timeout, kSilence);
    ClientError error;
    const size_t count =
        co_await transfer.link->wire.async_read_some(asio::buffer(piece), with_error(error));
    if (interruption(transfer)) break;
    sink.now_ns = monotonic_ns();
    if (count > 0 && !reader.put({piece.data(), count})) break;
    if (!error) continue;
    // Under TLS an end that the server did not say may be somebody else's.
    const bool is_said = error == asio::error::eof || !transfer.link->wire.is_secret();
    is_said ? reader.end_of_stream() : reader.cut_off();
    break;
  }
}

// One on which nothing has come since: neither an end nor a word that nobody asked for.
std::unique_ptr<Link> Client::State::kept_link() {
  while (!free_.empty()) {
    std::unique_ptr<Link> link = std::move(free_.back());
    free_.pop_back();
    ClientError error;
    char one = 0;
    Socket& socket = link->wire.socket();
    socket.non_blocking(true, error);
    socket.receive(asio::buffer(&one, 1), Socket::message_peek, error);
    if (error == asio::error::would_block) return link;
  }
  return nullptr;
}

void Client::State::wait_at_most(Transfer& transfer, std::chrono::milliseconds time,
                                 const char* wait) const {
  transfer.wait = wait;
  transfer.deadline = std::min(transfer.last, std::chrono::steady_clock::now() + time);
}

std::optional<Ending> Client::State::interruption(const Transfer& transfer) const {
  if (stopped_) return Ending{Fault::stopped, "the client was stopped"};
  if (!transfer.timed_out) return std::nullopt;
  const bool is_whole = transfer.deadline == transfer.last;
  return Ending{Fault::timeout, is_whole ? "the request took longer than its time" : transfer.wait};
}

Async<void> Client::State::watch_times() {
  while (!transfers_.empty()) {
    ClientError error;
    ticker_.expires_after(kTimeoutGrain);
    co_await ticker_.async_wait(with_error(error));
    const PointInTime now = std::chrono::steady_clock::now();
    for (Transfer* transfer : transfers_) {
      if (now < transfer->deadline) continue;
      transfer->timed_out = true;
      if (transfer->link != nullptr) transfer->link->wire.cancel();
      places_.wake();
    }
  }
  is_watching_ = false;
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::open(const Address& address, const ClientOptions& options) {
  TlsContext tls;
  if (address.tls) {
    TENON_ASSIGN_OR_RETURN(tls, client_tls(options.authorities));
  } else if (!options.authorities.empty()) {
    return invalid_argument("there are authorities, and " + in_quotes(address.shown()) +
                            " has no certificate – write https://, or leave them out");
  }
  return std::unique_ptr<Client>(
      new Client(std::make_unique<State>(address, options, std::move(tls))));
}

void Client::send(Outgoing request, std::shared_ptr<ResponseHandler> handler) {
  state_->send(std::move(request), std::move(handler));
}
void Client::at(int64_t time_ns, std::function<void()> call) {
  state_->at(time_ns, std::move(call));
}
void Client::run() {
  state_->run();
}
void Client::stop() {
  state_->stop();
}

}  // namespace tenon::http
